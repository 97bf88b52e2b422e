// Stands between a program and its files: the call of a given number fails, is done by halves, or is the last one.
//
// Calls that change files under FAULT_UNDER are counted from 1. At number FAULT_AT happens what FAULT_KIND says: `error` (an input/output
// error), `full` (no space left), `short` (half of a write), `kill` (the process ends), `lost` (it ends, and so does whatever was written
// and not synchronized). FAULT_FIRED is a file that is made then.
//
// FAULT_HOLD is a pattern of paths: once a file or folder has got such a name, the process stops until somebody lets it go on.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 4096
enum kind { NONE, ERROR, FULL, SHORT, KILL, LOST };

// A file with bytes that no one has synchronized.
struct file {
    dev_t device;
    ino_t number;
    off_t synchronized;
    int is_dirty;
    char path[512];
};

static struct file files[FILES];
static int file_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long calls;

static const char* under(void) { return getenv("FAULT_UNDER"); }

static enum kind kind(void) {
    const char *names[] = {"", "error", "full", "short", "kill", "lost"}, *name = getenv("FAULT_KIND");
    for (int at = 1; name && at <= LOST; ++at)
        if (!strcmp(name, names[at])) return at;
    return NONE;
}

static int is_ours(const char* path) {
    const char* folder = under();
    return folder && path && !strncmp(path, folder, strlen(folder));
}

// The path behind a descriptor, or of a name relative to one.
static const char* path_of(int descriptor, const char* name, char* room) {
    char link[64], base[PATH_MAX];
    if (name && name[0] == '/') return name;
    if (descriptor == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) return NULL;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length < 0) return NULL;
        base[length] = 0;
    }
    if (!name) return strncpy(room, base, PATH_MAX);
    return snprintf(room, PATH_MAX, "%s/%s", base, name) < PATH_MAX ? room : NULL;
}

static struct file* known(int descriptor) {
    struct stat status;
    if (fstat(descriptor, &status) || !S_ISREG(status.st_mode)) return NULL;
    for (int at = 0; at < file_count; ++at)
        if (files[at].device == status.st_dev && files[at].number == status.st_ino) return &files[at];
    if (file_count == FILES) return NULL;
    char room[PATH_MAX];
    const char* path = path_of(descriptor, NULL, room);
    struct file* file = &files[file_count++];
    *file = (struct file){status.st_dev, status.st_ino, status.st_size, 0, ""};
    if (path) strncpy(file->path, path, sizeof file->path - 1);
    return file;
}

// What a machine that loses its power loses.
static void lose(void) {
    for (int at = 0; at < file_count; ++at) {
        struct stat status;
        if (files[at].is_dirty && !stat(files[at].path, &status) && status.st_ino == files[at].number)
            syscall(SYS_truncate, files[at].path, files[at].synchronized);
    }
}

// Counts a call; what is to happen at it.
static enum kind counted(const char* path) {
    const char* wanted = getenv("FAULT_AT");
    if (!wanted || !is_ours(path)) return NONE;
    pthread_mutex_lock(&lock);
    long number = ++calls;
    enum kind what = number == atol(wanted) ? kind() : NONE;
    if (what != NONE) {
        const char* fired = getenv("FAULT_FIRED");
        if (fired) close(syscall(SYS_open, fired, O_CREAT | O_WRONLY, 0600));
        if (what == LOST) lose();
        if (what >= KILL) kill(getpid(), SIGKILL);
    }
    pthread_mutex_unlock(&lock);
    if (what == ERROR || what == FULL) errno = what == FULL ? ENOSPC : EIO;
    return what;
}

static int fails(const char* path) {
    enum kind what = counted(path);
    return what == ERROR || what == FULL;
}

// Stops at the first name that is waited for.
static void named(const char* path) {
    static int is_done;
    const char* pattern = getenv("FAULT_HOLD");
    if (pattern && is_ours(path) && !fnmatch(pattern, path, 0) && !__atomic_exchange_n(&is_done, 1, __ATOMIC_SEQ_CST)) kill(getpid(), SIGSTOP);
}

static void written(int descriptor, ssize_t bytes) {
    if (bytes <= 0) return;
    pthread_mutex_lock(&lock);
    struct file* file = known(descriptor);
    if (file) file->is_dirty = 1;
    pthread_mutex_unlock(&lock);
}

// Before a write: so that the size without it is known.
static void about_to_write(int descriptor) {
    pthread_mutex_lock(&lock);
    known(descriptor);
    pthread_mutex_unlock(&lock);
}

static void synchronized_now(int descriptor) {
    struct stat status;
    pthread_mutex_lock(&lock);
    struct file* file = known(descriptor);
    if (file && !fstat(descriptor, &status)) file->synchronized = status.st_size, file->is_dirty = 0;
    pthread_mutex_unlock(&lock);
}

static void renamed(const char* from, const char* to) {
    size_t length = strlen(from);
    pthread_mutex_lock(&lock);
    for (int at = 0; at < file_count; ++at) {
        if (strncmp(files[at].path, from, length) || (files[at].path[length] && files[at].path[length] != '/')) continue;
        char path[sizeof files[at].path];
        if (snprintf(path, sizeof path, "%s%s", to, files[at].path + length) < (int)sizeof path) strcpy(files[at].path, path);
    }
    pthread_mutex_unlock(&lock);
}

#define NEXT(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

#define WRITE(name, parameters, arguments, halved, bytes)                 \
    ssize_t name parameters {                                             \
        char room[PATH_MAX];                                              \
        const char* path = path_of(descriptor, NULL, room);               \
        if (!is_ours(path)) return NEXT(name) arguments;                  \
        about_to_write(descriptor);                                       \
        enum kind what = counted(path);                                   \
        if (what == ERROR || what == FULL) return -1;                     \
        ssize_t done = what == SHORT && (bytes) > 1 ? halved : NEXT(name) arguments; \
        written(descriptor, done);                                        \
        return done;                                                      \
    }

WRITE(write, (int descriptor, const void* from, size_t count), (descriptor, from, count), NEXT(write)(descriptor, from, count / 2), count)
WRITE(pwrite64, (int descriptor, const void* from, size_t count, off64_t place), (descriptor, from, count, place),
      NEXT(pwrite64)(descriptor, from, count / 2, place), count)
WRITE(writev, (int descriptor, const struct iovec* from, int count), (descriptor, from, count), NEXT(writev)(descriptor, from, 1), count)

#define SYNCHRONIZE(name)                                                 \
    int name(int descriptor) {                                            \
        char room[PATH_MAX];                                              \
        const char* path = path_of(descriptor, NULL, room);               \
        if (is_ours(path) && fails(path)) return -1;                      \
        int done = NEXT(name)(descriptor);                                \
        if (!done && is_ours(path)) synchronized_now(descriptor);         \
        return done;                                                      \
    }

SYNCHRONIZE(fsync)
SYNCHRONIZE(fdatasync)

int ftruncate64(int descriptor, off64_t length) {
    char room[PATH_MAX];
    const char* path = path_of(descriptor, NULL, room);
    return is_ours(path) && fails(path) ? -1 : NEXT(ftruncate64)(descriptor, length);
}

#define OPEN(name, parameters, folder, call)                              \
    int name parameters {                                                 \
        mode_t mode = 0;                                                  \
        if (flags & (O_CREAT | __O_TMPFILE)) {                            \
            va_list more;                                                 \
            va_start(more, flags);                                        \
            mode = va_arg(more, mode_t);                                  \
            va_end(more);                                                 \
        }                                                                 \
        char room[PATH_MAX];                                              \
        if (flags & (O_WRONLY | O_RDWR) && fails(path_of(folder, path, room))) return -1; \
        return call;                                                      \
    }

OPEN(open64, (const char* path, int flags, ...), AT_FDCWD, NEXT(open64)(path, flags, mode))
OPEN(openat64, (int folder, const char* path, int flags, ...), folder, NEXT(openat64)(folder, path, flags, mode))
OPEN(open, (const char* path, int flags, ...), AT_FDCWD, NEXT(open)(path, flags, mode))
OPEN(openat, (int folder, const char* path, int flags, ...), folder, NEXT(openat)(folder, path, flags, mode))

int rename(const char* from, const char* to) {
    char one[PATH_MAX], other[PATH_MAX];
    const char *old = path_of(AT_FDCWD, from, one), *new = path_of(AT_FDCWD, to, other);
    if (fails(new)) return -1;
    int done = NEXT(rename)(from, to);
    if (!done && is_ours(new)) renamed(old, new), named(new);
    return done;
}

#define CHANGE(name, parameters, folder, arguments)                       \
    int name parameters {                                                 \
        char room[PATH_MAX];                                              \
        return fails(path_of(folder, path, room)) ? -1 : NEXT(name) arguments; \
    }

CHANGE(unlink, (const char* path), AT_FDCWD, (path))
CHANGE(unlinkat, (int folder, const char* path, int flags), folder, (folder, path, flags))
CHANGE(rmdir, (const char* path), AT_FDCWD, (path))
CHANGE(mkdir, (const char* path, mode_t mode), AT_FDCWD, (path, mode))
