/* Writes the errors of SQLite to the file SQLITE_LOG, like the log of a database server.
 *
 * Preload it into a process (LD_PRELOAD). A statement is written as it was prepared, without its values.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SQLITE_CONFIG_LOG 16 /* https://sqlite.org/errlog.html */

static int file = -1;

static void note(void *unused, int code, const char *message) {
    char line[8192];
    (void)unused;
    int length = snprintf(line, sizeof line, "%d %s", code, message);
    if (length >= (int)sizeof line) length = sizeof line - 1;
    for (int place = 0; place < length; place++)
        if (line[place] == '\n') line[place] = ' ';
    line[length++] = '\n';
    if (write(file, line, length) != length) abort();
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SQLITE_LOG");
    void *library = path == NULL ? NULL : dlopen("libsqlite3.so.0", RTLD_LAZY | RTLD_GLOBAL);
    int (*config)(int, ...) = library == NULL ? NULL : (int (*)(int, ...))dlsym(library, "sqlite3_config");
    if (config == NULL) return;
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0 || config(SQLITE_CONFIG_LOG, note, NULL) != 0) abort();
}
