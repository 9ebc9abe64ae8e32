/* Simulates the disk in a power cut: keeps a copy of each file as it was at its last sync.
 *
 * Preload it into a process (LD_PRELOAD). After each fsync or fdatasync of a file below POWER_SOURCE
 * the file is copied to the same place below POWER_DISK. Later writes are missing there, as after a
 * power cut. A rename of a synced file is kept; the new name of a file that was never synced is lost.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The rename of the C library, behind our own. */
static int moves(const char *old, const char *new) {
    return ((int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename"))(old, new);
}

static void copy(const char *source, const char *target) {
    char part[PATH_MAX], folder[PATH_MAX], block[65536];
    snprintf(folder, sizeof folder, "%s", target);
    for (char *slash = folder + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(folder, 0700);
        *slash = '/';
    }
    if (snprintf(part, sizeof part, "%s.%d.part", target, (int)getpid()) >= (int)sizeof part) abort();
    int from = open(source, O_RDONLY | O_CLOEXEC), to = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (from < 0 || to < 0) abort();
    for (ssize_t got; (got = read(from, block, sizeof block)) > 0;)
        if (write(to, block, got) != got) abort();
    close(from);
    close(to);
    if (moves(part, target) != 0) abort();
}

/* Locks the file until the process ends, so that an older copy never replaces a newer one. */
static void line_up(const char *target) {
    char lock[PATH_MAX];
    if (snprintf(lock, sizeof lock, "%s.lock", target) >= (int)sizeof lock) abort();
    int file = open(lock, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0 && flock(file, LOCK_EX) != 0) abort(); /* no folder yet: the first copy needs no lock */
}

static void keep(int file) {
    const char *source = getenv("POWER_SOURCE"), *disk = getenv("POWER_DISK");
    char link[64], path[PATH_MAX], target[PATH_MAX];
    int before = errno;
    if (source == NULL || disk == NULL) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    struct stat about;
    if (length > 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_nlink > 0) {
        path[length] = '\0';
        size_t root = strlen(source);
        if (strncmp(path, source, root) == 0 && path[root] == '/') {
            if (snprintf(target, sizeof target, "%s%s", disk, path + root) >= (int)sizeof target) abort();
            if (getenv("POWER_NO_LOCKS") != NULL) {
                copy(path, target);
                errno = before;
                return;
            }
            /* In a child: closing a descriptor here would drop the POSIX locks that SQLite holds. */
            pid_t child = fork();
            if (child == 0) {
                line_up(target);
                copy(path, target);
                _exit(0);
            }
            int status = 0;
            if (child < 0 || waitpid(child, &status, 0) != child || status != 0) abort();
        }
    }
    errno = before;
}

/* Writes the path on the disk to `target`; returns 1 if `path` is below POWER_SOURCE, else 0. */
static int place(const char *path, char *target) {
    const char *source = getenv("POWER_SOURCE"), *disk = getenv("POWER_DISK");
    char folder[PATH_MAX], whole[PATH_MAX];
    if (source == NULL || disk == NULL) return 0;
    if (path[0] == '/') folder[0] = '\0';
    else if (getcwd(folder, sizeof folder - 1) == NULL) return 0;
    else strcat(folder, "/");
    if (snprintf(whole, sizeof whole, "%s%s", folder, path) >= (int)sizeof whole) abort();
    size_t root = strlen(source);
    if (strncmp(whole, source, root) != 0 || whole[root] != '/') return 0;
    if (snprintf(target, PATH_MAX, "%s%s", disk, whole + root) >= PATH_MAX) abort();
    return 1;
}

int rename(const char *old, const char *new) {
    int result = moves(old, new), before = errno;
    char from[PATH_MAX], to[PATH_MAX];
    if (result == 0 && place(old, from) && place(new, to)) moves(from, to); /* fails if it was never synced */
    errno = before;
    return result;
}

#define SYNC(name)                                                                                 \
    int name(int file) {                                                                           \
        int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, #name);                                  \
        int result = real(file);                                                                   \
        if (result == 0) keep(file);                                                               \
        return result;                                                                             \
    }

static int keep_one(const char *path, const struct stat *about, int sort, struct FTW *walk) {
    char target[PATH_MAX];
    (void)walk;
    if (sort == FTW_F && S_ISREG(about->st_mode) && place(path, target)) copy(path, target);
    return 0;
}

/* PostgreSQL calls it when a recovery starts (recovery_init_sync_method) and nothing else works. */
int syncfs(int file) {
    const char *source = getenv("POWER_SOURCE");
    int result = ((int (*)(int))dlsym(RTLD_NEXT, "syncfs"))(file), before = errno;
    if (result == 0 && source != NULL && nftw(source, keep_one, 16, FTW_PHYS) != 0) abort();
    errno = before;
    return result;
}

SYNC(fsync)
SYNC(fdatasync)
