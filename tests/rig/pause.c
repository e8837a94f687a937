/* Two small jobs that need an init: it reaps whatever is orphaned to it, and waits.
 *
 *   pause            the process that holds a sandbox: ends on SIGTERM or SIGINT
 *   pause --stdin    the first process of a rig: ends when its standard input does,
 *                    which happens when the test process is gone, however it went
 */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal_number) { (void)signal_number; _exit(0); }

static void reap(int signal_number) {
    (void)signal_number;
    while (waitpid(-1, 0, WNOHANG) > 0) {}
}

int main(int argc, char **argv) {
    struct sigaction on_end = {.sa_handler = end};
    struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
    sigaction(SIGTERM, &on_end, 0);
    sigaction(SIGINT, &on_end, 0);
    sigaction(SIGCHLD, &on_child, 0);
    if (argc > 1 && strcmp(argv[1], "--stdin") == 0) {
        char byte;
        /* A signal interrupts poll, not the wait for the end of the input. */
        for (;;) {
            struct pollfd input = {.fd = 0, .events = POLLIN};
            if (poll(&input, 1, -1) == 1 && read(0, &byte, 1) == 0) return 0;
        }
    }
    for (;;) pause();
}
