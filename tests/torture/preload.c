/* Counts the file calls of a process below one folder; fails one of them, or kills the process there.

   Loaded by LD_PRELOAD, it sees what Python, SQLite and Arrow call alike. `torture_arm` gives it a block of shared memory, so that whoever
   forked the process can read how far it came. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, FAIL, KILL_BEFORE, KILL_AFTER, FULL };
enum { OTHER, GROWS }; /* whether a full disk refuses it */

struct control { /* as tests/torture/shim.py has it */
    long mode, at, error, count, used;
    char folder[1024];
    char log[1 << 18]; /* "call path\n" for each point */
};

static struct control *control;
static __thread int dies;

void torture_arm(struct control *given) { control = given; }

static void die(void) {
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
}

static void after(void) {
    if (dies) die();
}

/* Whether the call fails, errno being set. */
static int point(const char *call, const char *path, int grows) {
    size_t length = strlen(control->folder);
    if (strncmp(path, control->folder, length) || (path[length] && path[length] != '/')) return 0;
    long number = __atomic_add_fetch(&control->count, 1, __ATOMIC_SEQ_CST);
    long used = control->used;
    int wrote = snprintf(control->log + used, sizeof control->log - used, "%s %s\n", call, path[length] ? path + length + 1 : ".");
    if (used + wrote < (long)sizeof control->log) control->used = used + wrote;
    if (control->mode == FULL && number >= control->at && grows) return errno = ENOSPC, 1;
    if (number != control->at) return 0;
    if (control->mode == KILL_BEFORE) die();
    if (control->mode == KILL_AFTER) dies = 1;
    if (control->mode == FAIL) return errno = (int)control->error, 1;
    return 0;
}

static int by_handle(const char *call, int handle, int grows) {
    char link[64], path[PATH_MAX];
    if (!control) return 0;
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length < 0) return 0;
    path[length] = 0;
    char *gone = strstr(path, " (deleted)");
    if (gone) *gone = 0;
    return point(call, path, grows);
}

static int by_name(const char *call, int folder, const char *path, int grows) {
    char link[64], whole[2 * PATH_MAX];
    if (!control) return 0;
    if (*path == '/') return point(call, path, grows);
    int before = errno;
    if (folder == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t length = readlink(link, whole, PATH_MAX);
    errno = before;
    if (length < 0) return 0;
    snprintf(whole + length, PATH_MAX, "/%s", path);
    return point(call, whole, grows);
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define WRAP(result, name, parameters, fails, failed, arguments) \
    result name parameters { REAL(name); if (fails) return failed; result done = real arguments; after(); return done; }

#define WRITES(flags) ((flags) & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC))
#define MODE va_list more; va_start(more, flags); mode_t mode = (flags) & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0; va_end(more)
#define OPENS(name) \
    int name(const char *path, int flags, ...) { MODE; REAL(name); \
        if (WRITES(flags) && by_name("open", AT_FDCWD, path, !!((flags) & O_CREAT))) return -1; \
        int done = real(path, flags, mode); after(); return done; }
#define OPENS_AT(name) \
    int name(int folder, const char *path, int flags, ...) { MODE; REAL(name); \
        if (WRITES(flags) && by_name("open", folder, path, !!((flags) & O_CREAT))) return -1; \
        int done = real(folder, path, flags, mode); after(); return done; }
OPENS(open) OPENS(open64) OPENS_AT(openat) OPENS_AT(openat64)

#define FOPENS(name) WRAP(FILE *, name, (const char *path, const char *mode), \
    strpbrk(mode, "wa+") && by_name("fopen", AT_FDCWD, path, GROWS), NULL, (path, mode))
FOPENS(fopen) FOPENS(fopen64)
WRAP(size_t, fwrite, (const void *data, size_t size, size_t count, FILE *file), by_handle("fwrite", fileno(file), GROWS), 0,
     (data, size, count, file))
WRAP(int, fflush, (FILE *file), file && by_handle("fflush", fileno(file), GROWS), EOF, (file))

WRAP(ssize_t, write, (int f, const void *data, size_t size), by_handle("write", f, GROWS), -1, (f, data, size))
WRAP(ssize_t, pwrite, (int f, const void *data, size_t size, off_t at), by_handle("write", f, GROWS), -1, (f, data, size, at))
WRAP(ssize_t, pwrite64, (int f, const void *data, size_t size, off64_t at), by_handle("write", f, GROWS), -1, (f, data, size, at))
WRAP(ssize_t, writev, (int f, const struct iovec *parts, int count), by_handle("write", f, GROWS), -1, (f, parts, count))
WRAP(ssize_t, pwritev, (int f, const struct iovec *parts, int count, off_t at), by_handle("write", f, GROWS), -1, (f, parts, count, at))
WRAP(ssize_t, pwritev64, (int f, const struct iovec *parts, int count, off64_t at), by_handle("write", f, GROWS), -1, (f, parts, count, at))
ssize_t sendfile(int to, int from, off_t *at, size_t size);
ssize_t sendfile64(int to, int from, off64_t *at, size_t size);
WRAP(ssize_t, sendfile, (int to, int from, off_t *at, size_t size), by_handle("sendfile", to, GROWS), -1, (to, from, at, size))
WRAP(ssize_t, sendfile64, (int to, int from, off64_t *at, size_t size), by_handle("sendfile", to, GROWS), -1, (to, from, at, size))
WRAP(ssize_t, copy_file_range, (int from, off64_t *i, int to, off64_t *o, size_t size, unsigned flags), by_handle("copy", to, GROWS), -1,
     (from, i, to, o, size, flags))

WRAP(int, fsync, (int f), by_handle("fsync", f, OTHER), -1, (f))
WRAP(int, fdatasync, (int f), by_handle("fsync", f, OTHER), -1, (f))
WRAP(int, ftruncate, (int f, off_t size), by_handle("truncate", f, OTHER), -1, (f, size))
WRAP(int, ftruncate64, (int f, off64_t size), by_handle("truncate", f, OTHER), -1, (f, size))
WRAP(int, truncate, (const char *path, off_t size), by_name("truncate", AT_FDCWD, path, OTHER), -1, (path, size))
WRAP(int, truncate64, (const char *path, off64_t size), by_name("truncate", AT_FDCWD, path, OTHER), -1, (path, size))
WRAP(int, posix_fallocate, (int f, off_t at, off_t size), by_handle("fallocate", f, GROWS), errno, (f, at, size))
WRAP(int, posix_fallocate64, (int f, off64_t at, off64_t size), by_handle("fallocate", f, GROWS), errno, (f, at, size))
WRAP(int, fallocate, (int f, int mode, off_t at, off_t size), by_handle("fallocate", f, GROWS), -1, (f, mode, at, size))
WRAP(int, fallocate64, (int f, int mode, off64_t at, off64_t size), by_handle("fallocate", f, GROWS), -1, (f, mode, at, size))

WRAP(int, rename, (const char *from, const char *to), by_name("rename", AT_FDCWD, to, OTHER), -1, (from, to))
WRAP(int, renameat, (int a, const char *from, int b, const char *to), by_name("rename", b, to, OTHER), -1, (a, from, b, to))
WRAP(int, renameat2, (int a, const char *from, int b, const char *to, unsigned flags), by_name("rename", b, to, OTHER), -1,
     (a, from, b, to, flags))
WRAP(int, link, (const char *from, const char *to), by_name("link", AT_FDCWD, to, GROWS), -1, (from, to))
WRAP(int, linkat, (int a, const char *from, int b, const char *to, int flags), by_name("link", b, to, GROWS), -1, (a, from, b, to, flags))
WRAP(int, symlink, (const char *to, const char *path), by_name("symlink", AT_FDCWD, path, GROWS), -1, (to, path))
WRAP(int, unlink, (const char *path), by_name("unlink", AT_FDCWD, path, OTHER), -1, (path))
WRAP(int, unlinkat, (int folder, const char *path, int flags), by_name("unlink", folder, path, OTHER), -1, (folder, path, flags))
WRAP(int, remove, (const char *path), by_name("unlink", AT_FDCWD, path, OTHER), -1, (path))
WRAP(int, rmdir, (const char *path), by_name("rmdir", AT_FDCWD, path, OTHER), -1, (path))
WRAP(int, mkdir, (const char *path, mode_t mode), by_name("mkdir", AT_FDCWD, path, GROWS), -1, (path, mode))
WRAP(int, mkdirat, (int folder, const char *path, mode_t mode), by_name("mkdir", folder, path, GROWS), -1, (folder, path, mode))
WRAP(int, chmod, (const char *path, mode_t mode), by_name("chmod", AT_FDCWD, path, OTHER), -1, (path, mode))
WRAP(int, fchmod, (int f, mode_t mode), by_handle("chmod", f, OTHER), -1, (f, mode))
WRAP(int, fchmodat, (int folder, const char *path, mode_t mode, int flags), by_name("chmod", folder, path, OTHER), -1,
     (folder, path, mode, flags))
WRAP(int, utimensat, (int folder, const char *path, const struct timespec times[2], int flags),
     path && by_name("utime", folder, path, OTHER), -1, (folder, path, times, flags))
