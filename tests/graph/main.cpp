#include "tests/device.h"

// mica_test_graph [--device cpu|cuda] [GoogleTest's own flags]
int main(int argc, char** argv) { return mica::test::run_on_device(argc, argv, "mica_test_graph"); }
