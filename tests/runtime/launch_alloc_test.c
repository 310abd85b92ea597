/* Every allocation of what starts processes and tells them of each other is made to fail once. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/launch.h"
#include "runtime/launch/share.h"
#include "tests/alloc_fail.h"
#include "tests/test.h"
#include "tools/run/children.h"

/* Process 0 of two; the other one comes, and goes when it has its word or the first has failed. */
static int share(struct tutti_err *err)
{
    struct tutti_launch launch = {.by = "a test", .count = 2, .local_count = 2};
    char word[TUTTI_LAUNCH_SHARE_BYTES] = "word";
    pid_t other;
    int status;

    snprintf(launch.job, sizeof(launch.job), "alloc %d", (int)getpid());
    other = fork();
    if (other == 0) {
        launch.index = 1;
        _exit(tutti_launch_share(&tutti_env_process, &launch, word, 20 * TUTTI_PS_PER_S, NULL) !=
              0);
    }
    status = tutti_launch_share(&tutti_env_process, &launch, word, 20 * TUTTI_PS_PER_S, err);
    if (status < 0)
        (void)kill(other, SIGKILL);
    (void)waitpid(other, NULL, 0);
    return status;
}

TEST(a_word_for_all)
{
    struct tutti_err err = {.text = ""};

    ALLOC_FAIL_EACH(share(&err), err);
}

static int start(struct tutti_err *err)
{
    struct tutti_sink sink = {.out = stdout, .notes = stderr};
    struct tutti_children *children = NULL;
    bool child = false;
    int status = tutti_children_new("test", 1, &sink, &children, err);

    if (status < 0)
        return status;
    status = tutti_children_start(children, &child, err);
    if (child)
        _exit(0);
    return tutti_children_wait(children, TUTTI_PS_PER_S) == 0 ? status : -TUTTI_EIO;
}

TEST(processes_of_a_command)
{
    struct tutti_err err = {.text = ""};

    ALLOC_FAIL_EACH(start(&err), err);
}
