// Fails the n-th call that changes a file below a directory: TORTURE_AT, TORTURE_ERROR, TORTURE_BELOW.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int calls;
static char watched[1024];

static int fails(void) {
  const char* at = getenv("TORTURE_AT");
  const int number = atomic_fetch_add(&calls, 1) + 1;
  if (!at || number != atoi(at)) return 0;
  errno = atoi(getenv("TORTURE_ERROR"));
  const int file = dup(2);
  dprintf(file, "torture: failed\n");
  close(file);
  errno = atoi(getenv("TORTURE_ERROR"));
  return 1;
}

/// How many there are to fail.
__attribute__((destructor)) static void report(void) {
  if (!getenv("TORTURE_AT")) return;
  fprintf(stderr, "torture: %d calls\n", atomic_load(&calls));
}

static int is_below(const char* path) {
  const char* below = getenv("TORTURE_BELOW");
  return below && strncmp(path, below, strlen(below)) == 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int opened(int file, const char* path) {
  if (file >= 0 && file < (int)sizeof watched) watched[file] = (char)is_below(path);
  return file;
}

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
  va_end(list);
  if ((flags & O_CREAT) && is_below(path) && fails()) return -1;
  return opened(REAL(open)(path, flags, mode), path);
}
int open64(const char* path, int flags, ...) __attribute__((alias("open")));

int close(int file) {
  if (file >= 0 && file < (int)sizeof watched) watched[file] = 0;
  return REAL(close)(file);
}
#define WATCHED(file) ((file) >= 0 && (file) < (int)sizeof watched && watched[file])
ssize_t write(int file, const void* data, size_t size) {
  return WATCHED(file) && fails() ? -1 : REAL(write)(file, data, size);
}
int fsync(int file) { return WATCHED(file) && fails() ? -1 : REAL(fsync)(file); }
int ftruncate(int file, off_t size) {
  return WATCHED(file) && fails() ? -1 : REAL(ftruncate)(file, size);
}
int ftruncate64(int file, off_t size) __attribute__((alias("ftruncate")));
int rename(const char* from, const char* to) {
  return is_below(to) && fails() ? -1 : REAL(rename)(from, to);
}
