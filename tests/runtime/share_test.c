/* Process 0 hands a word to the others of its launcher: on one host, by PMI, and to nobody else. */
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/launch.h"
#include "runtime/launch/share.h"
#include "runtime/status.h"
#include "tests/test.h"

static struct tutti_launch on_one_host(uint32_t index, uint32_t count, const char *job)
{
    struct tutti_launch launch = {.name = "openmpi",
                                  .by = "a test",
                                  .member = true,
                                  .index = index,
                                  .count = count,
                                  .local_index = index,
                                  .local_count = count};

    snprintf(launch.job, sizeof(launch.job), "%s %d", job, getpid());
    return launch;
}

/* In a child: whether it hears the word. */
static pid_t hear(const struct tutti_launch *launch, tutti_ps deadline_ps)
{
    pid_t child = fork();

    if (child == 0) {
        char word[TUTTI_LAUNCH_SHARE_BYTES] = "";
        struct tutti_err err = {""};
        int status = tutti_launch_share(&tutti_env_process, launch, word, deadline_ps, &err);

        _exit(status == 0 && strcmp(word, "127.0.0.1:7000/secret") == 0 ? 0 : 10 - status);
    }
    return child;
}

static int end_of(pid_t child)
{
    int status = 0;

    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(all_of_one_host_hear_it)
{
    char word[TUTTI_LAUNCH_SHARE_BYTES] = "127.0.0.1:7000/secret";
    struct tutti_launch launches[4];
    struct tutti_err err = {""};
    pid_t children[4];

    for (uint32_t i = 0; i < 4; i++)
        launches[i] = on_one_host(i, 4, "all");
    for (int i = 1; i < 4; i++)
        children[i] = hear(&launches[i], 20 * TUTTI_PS_PER_S);
    CHECK_OK(tutti_launch_share(&tutti_env_process, &launches[0], word, 20 * TUTTI_PS_PER_S, &err),
             err);
    for (int i = 1; i < 4; i++)
        CHECK_INT(end_of(children[i]), 0);
}

TEST(who_has_not_come_is_named)
{
    char word[TUTTI_LAUNCH_SHARE_BYTES] = "127.0.0.1:7000/secret";
    struct tutti_launch first = on_one_host(0, 4, "late");
    struct tutti_launch second = on_one_host(2, 4, "late");
    struct tutti_err err = {""};
    pid_t child = hear(&second, 20 * TUTTI_PS_PER_S);

    CHECK_INT(tutti_launch_share(&tutti_env_process, &first, word, TUTTI_PS_PER_S, &err),
              -TUTTI_ETIME);
    CHECK_TEXT(err.text, "process 1, 3 of 4 have not come before the deadline to ask where process "
                         "0 is (started by a test)");
    CHECK_INT(end_of(child), 0); /* it had come in time */
}

TEST(without_the_first_nobody_waits_for_ever)
{
    struct tutti_launch second = on_one_host(1, 2, "alone");
    char word[TUTTI_LAUNCH_SHARE_BYTES] = "";
    struct tutti_err err = {""};

    CHECK_INT(tutti_launch_share(&tutti_env_process, &second, word, TUTTI_PS_PER_S / 5, &err),
              -TUTTI_ETIME);
    CHECK_TEXT(err.text, "process 0 of 2 has not come before the deadline (started by a test)");
}

/* Somebody who connects and says nothing, or nonsense, holds up nobody for long. */
TEST(a_silent_stranger_keeps_nobody)
{
    char word[TUTTI_LAUNCH_SHARE_BYTES] = "127.0.0.1:7000/secret";
    struct tutti_launch first = on_one_host(0, 2, "silent");
    struct tutti_launch second = on_one_host(1, 2, "silent");
    struct tutti_err err = {""};
    pid_t stranger = fork();
    pid_t child;

    if (stranger == 0) {
        uint64_t hash = 14695981039346656037u;
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        int length;

        for (const char *p = first.job; *p != '\0'; p++)
            hash = (hash ^ (unsigned char)*p) * 1099511628211u;
        length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "tutti-share-%u-%016llx",
                          (unsigned)getuid(), (unsigned long long)hash);
        for (int i = 0; i < 100; i++) {
            if (connect(fd, (struct sockaddr *)&name,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) ==
                0)
                break;
            poll(NULL, 0, 10);
        }
        sleep(5);
        _exit(0);
    }
    poll(NULL, 0, 300);
    child = hear(&second, 20 * TUTTI_PS_PER_S);
    CHECK_OK(tutti_launch_share(&tutti_env_process, &first, word, 20 * TUTTI_PS_PER_S, &err), err);
    CHECK_INT(end_of(child), 0);
    kill(stranger, SIGKILL);
    CHECK_INT(end_of(stranger), -1);
}

TEST(a_launcher_that_offers_nothing_is_named)
{
    struct tutti_launch launch = on_one_host(0, 4, "x");
    char word[TUTTI_LAUNCH_SHARE_BYTES] = "x";
    struct tutti_err err = {""};

    launch.local_count = 2;
    CHECK(!tutti_launch_can_share(&launch));
    CHECK_INT(tutti_launch_share(&tutti_env_process, &launch, word, TUTTI_PS_PER_S, &err),
              -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "a test does not say where process 0 is");
}

/* ---- PMI ------------------------------------------------------------------------------------- */

/* A launcher of our own: answers each line by the next one of `answers`. */
static pid_t answer(int fd, const char *const *answers)
{
    pid_t child = fork();

    if (child == 0) {
        for (; *answers != NULL; answers++) {
            char c = 0;

            while (c != '\n')
                if (read(fd, &c, 1) != 1)
                    _exit(1);
            if (write(fd, *answers, strlen(*answers)) < 0)
                _exit(1);
        }
        poll(NULL, 0, 2000); /* says no more */
        _exit(0);
    }
    return child;
}

static int share_by_pmi(uint32_t index, const char *const *answers, char *word,
                        struct tutti_err *err)
{
    struct tutti_launch launch = {.by = "a test", .index = index, .count = 2, .has_pmi = true};
    int ends[2];
    pid_t child;
    int status;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return -1;
    child = answer(ends[1], answers);
    close(ends[1]);
    status = tutti_launch_share_pmi(ends[0], &launch, word, tutti_launch_now_ms() + 500, err);
    close(ends[0]);
    kill(child, SIGKILL);
    (void)end_of(child);
    return status;
}

#define INIT  "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
#define SPACE "cmd=my_kvsname kvsname=kvs_17_0\n"

TEST(pmi_hands_the_word_on)
{
    static const char *const first[] = {
        INIT, SPACE, "cmd=put_result rc=0 msg=success\n", "cmd=barrier_out\n", "cmd=finalize_ack\n",
        NULL};
    static const char *const second[] = {INIT,
                                         SPACE,
                                         "cmd=barrier_out\n",
                                         "cmd=get_result rc=0 msg=success value=a:1/s\n",
                                         "cmd=finalize_ack\n",
                                         NULL};
    char word[TUTTI_LAUNCH_SHARE_BYTES] = "a:1/s";
    struct tutti_err err = {""};

    CHECK_OK(share_by_pmi(0, first, word, &err), err);
    word[0] = '\0';
    CHECK_OK(share_by_pmi(1, second, word, &err), err);
    CHECK_TEXT(word, "a:1/s");
}

TEST(pmi_that_answers_badly_is_shown)
{
    static const char *const refused[] = {INIT, SPACE, "cmd=barrier_out\n",
                                          "cmd=get_result rc=-1 msg=key_not_found\n", NULL};
    static const char *const strange[] = {"cmd=mumble\n", NULL};
    static const char *const silent[] = {INIT, SPACE, NULL};
    char word[TUTTI_LAUNCH_SHARE_BYTES] = "";
    struct tutti_err err = {""};

    CHECK_INT(share_by_pmi(1, refused, word, &err), -TUTTI_EIO);
    CHECK_TEXT(err.text, "the launcher refuses PMI's 'get': 'cmd=get_result rc=-1 "
                         "msg=key_not_found'");
    CHECK_INT(share_by_pmi(1, strange, word, &err), -TUTTI_EIO);
    CHECK_TEXT(err.text, "the launcher answers PMI's 'init' by 'cmd=mumble' (response_to_init)");
    CHECK_INT(share_by_pmi(1, silent, word, &err), -TUTTI_ETIME);
    CHECK(strstr(err.text, "PMI's 'barrier_in' before the deadline") != NULL);
}

TEST(values_of_pmi)
{
    char value[8];

    CHECK(tutti_pmi_value("cmd=x rc=0 value=ab", "value", value, sizeof(value)));
    CHECK_TEXT(value, "ab");
    CHECK(tutti_pmi_value("cmd=x", "cmd", value, sizeof(value)));
    CHECK(!tutti_pmi_value("cmd=x", "cm", value, sizeof(value)));
    CHECK(!tutti_pmi_value("cmd=x", "c", value, sizeof(value)));
    CHECK(!tutti_pmi_value("", "cmd", value, sizeof(value)));
    CHECK(!tutti_pmi_value("value=12345678", "value", value, sizeof(value)));
}
