/* hold FILE COMMAND...: runs the command with a lock on the file, which the kernel takes back when the last process of
 * it is gone. If another one holds it, two that should never meet have met: FILE.met is made, and nothing run. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int file = open(argv[1], O_RDWR | O_CREAT, 0666);
    if (file < 0) return 1;
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
        char met[4096];
        snprintf(met, sizeof met, "%s.met", argv[1]);
        open(met, O_WRONLY | O_CREAT, 0666);
        return 99;
    }
    execvp(argv[2], argv + 2);
    return 1;
}
