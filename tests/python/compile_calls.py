"""Calls of functions, eagerly and compiled, that must see the same."""

import mica


def both(make, *calls):
    """What the function that `make` gives returns for each call, eagerly and compiled; a call is a
    tuple of arguments, or a function that changes something in between."""
    results = []
    for compiled in (False, True):
        f, *change = make()
        if compiled:
            f = mica.compile(f)
        seen = []
        for call in calls:
            if callable(call):
                call(*change)
            else:
                out = f(*call)
                seen.append([t.tolist() for t in (out if isinstance(out, tuple) else (out,))])
        results.append(seen)
    assert results[1] == results[0]
    return f
