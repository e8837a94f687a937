/* hold FILE COMMAND...: runs the command with a lock on the file, which the kernel takes back when the last process of
 * it is gone. If another one holds it, two that should never meet have met: FILE.met is made, and nothing run.
 * hold FILE=TAG COMMAND...: the same, but those with one tag may hold the file together. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static int met(const char *path) {
    char name[4096];
    snprintf(name, sizeof name, "%s.met", path);
    open(name, O_WRONLY | O_CREAT, 0666);
    return 99;
}

/* Shares the lock with others of the tag, which the file names while anybody holds it. */
static int share(const char *path, int file, const char *tag) {
    char name[4096], other[256] = "";
    snprintf(name, sizeof name, "%s.door", path);
    int door = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (door < 0 || flock(door, LOCK_EX) != 0) return 0;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) {
        if (ftruncate(file, 0) != 0 || pwrite(file, tag, strlen(tag), 0) < 0) return 0;
    } else if (pread(file, other, sizeof other - 1, 0) < 0 || strcmp(tag, other) != 0) {
        return 0;
    }
    int shared = flock(file, LOCK_SH | LOCK_NB) == 0;
    close(door);
    return shared;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    char *tag = strchr(argv[1], '=');
    if (tag) *tag++ = 0;
    int file = open(argv[1], O_RDWR | O_CREAT, 0666);
    if (file < 0) return 1;
    if (tag ? !share(argv[1], file, tag) : flock(file, LOCK_EX | LOCK_NB) != 0) return met(argv[1]);
    execvp(argv[2], argv + 2);
    return 1;
}
