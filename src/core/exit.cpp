// What the library keeps for the whole process (operators, caches, settings) is never taken down:
// threads may still compute when the main one calls exit(), and a program that has no more use for
// it gains nothing. The linker puts this function in the place of __cxa_atexit in the shared
// libraries (cmake/Library.cmake), so that no destructor of theirs is noted for exit().
//
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's name
extern "C" int __wrap___cxa_atexit(void (*destructor)(void*), void* object, void* library);
extern "C" int __wrap___cxa_atexit(void (* /*destructor*/)(void*), void* /*object*/,
                                   void* /*library*/) {
  return 0;
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
