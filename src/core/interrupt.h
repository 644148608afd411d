#pragma once

namespace mica {

/// Raises to end what the calling thread does; null: nothing ever does.
using InterruptCheck = void (*)();
void set_interrupt_check(InterruptCheck check);

/// Loops that can take long call it in every round: it makes the check every 50 milliseconds.
void poll_interrupt();

}  // namespace mica
