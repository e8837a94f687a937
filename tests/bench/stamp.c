/* What a measured pod runs, and the clock of the one who measures.
 *
 *   stamp FILE               appends the boot clock in nanoseconds to FILE as its first act, then
 *                            waits, and ends on SIGTERM
 *   stamp --exec FILE PROGRAM ARGUMENT...
 *                            does so too, and becomes another program
 *   stamp --cpu PID...       prints the processor time of each process in nanoseconds, that of its
 *                            ended threads included: /proc counts in steps of 10 ms
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void end(int signal_number) { (void)signal_number; _exit(0); }

static long long nanoseconds(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now) != 0) return -1;
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv) {
    long long boot = nanoseconds(CLOCK_BOOTTIME);
    struct sigaction on_end = {.sa_handler = end};
    if (argc > 1 && strcmp(argv[1], "--cpu") == 0) {
        for (int i = 2; i < argc; i++) {
            clockid_t clock;
            int found = clock_getcpuclockid(atoi(argv[i]), &clock) == 0;
            printf("%lld\n", found ? nanoseconds(clock) : -1);
        }
        return 0;
    }
    int becomes = argc > 3 && strcmp(argv[1], "--exec") == 0;
    if (!becomes) sigaction(SIGTERM, &on_end, 0);
    if (argc > 1) {
        char line[32];
        int length = snprintf(line, sizeof line, "%lld\n", boot);
        int file = open(argv[becomes ? 2 : 1], O_WRONLY | O_CREAT | O_APPEND, 0644);
        if (file < 0 || write(file, line, length) != length) return 1;
        close(file);
    }
    if (becomes) return execvp(argv[3], argv + 3);
    for (;;) pause();
}
