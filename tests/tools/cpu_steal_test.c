/* What others take of the processors: a child that is busy counts, and nothing is more than all. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/test.h"
#include "tools/run/cpu_steal.h"

TEST(a_process_beside_this_one_is_seen)
{
    struct tutti_cpu_steal since = tutti_cpu_steal_look();
    struct timespec second = {.tv_sec = 1};
    pid_t child;
    double percent;

    if (since.busy_s < 0)
        SKIP("no /proc/stat");
    child = fork();
    if (child == 0) {
        for (;;)
            continue;
    }
    REQUIRE(child > 0);
    (void)nanosleep(&second, NULL);
    percent = tutti_cpu_steal_percent(&since);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK(percent <= 100);
    CHECK(percent >=
          50.0 / (double)sysconf(_SC_NPROCESSORS_ONLN)); /* one processor, or who had it instead */
}

TEST(where_nothing_is_known_nothing_is_said)
{
    struct tutti_cpu_steal since = tutti_cpu_steal_look();

    since.busy_s = -1;
    CHECK(!(tutti_cpu_steal_percent(&since) > 0));
}
