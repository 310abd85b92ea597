/* `tutti train --cluster` and workers that are not there, do not answer or do not end. */
#include "runtime/status.h"
#include "tests/runtime/ports.h"
#include "tests/tools/standing.h"
#include "tools/worker/job.h"

/* What their `prepare` and `train` do: never end, whatever they are asked, or answer this. */
enum { NEVER = -1 };

static int play(void *context, const void *input, uint64_t bytes, struct tutti_cluster_reply *reply,
                struct tutti_err *err)
{
    const uint8_t said[4] = {(uint8_t) * (const int *)context};

    (void)input;
    (void)signal(SIGTERM, SIG_IGN);
    if (bytes > 0) /* trains */
        printf("plays\n");
    (void)fflush(stdout);
    while (*(const int *)context == NEVER)
        pause();
    return tutti_cluster_reply(reply, said, sizeof(said), err);
}

static void start_player(int index, int prepare, int train)
{
    const struct tutti_cluster_function functions[] = {{TUTTI_JOB_PREPARE, play, &prepare},
                                                       {TUTTI_JOB_TRAIN, play, &train}};
    const struct tutti_cluster_worker_opts opts = {.size = sizeof(opts),
                                                   .secret = SECRET,
                                                   .secret_bytes = strlen(SECRET),
                                                   .functions = functions,
                                                   .function_count = 2};
    struct tutti_cluster_worker *worker = NULL;
    struct tutti_err err = {""};
    bool served;

    CHECK_OK(tutti_cluster_worker_open(&opts, &worker, &err), err);
    REQUIRE(worker != NULL);
    snprintf(addresses[index], sizeof(addresses[0]), "%s", tutti_cluster_worker_address(worker));
    fflush(stdout);
    workers[index] = fork();
    if (workers[index] == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (tutti_cluster_worker_serve(worker, TUTTI_PS_PER_S, &served, &err) == 0)
            continue;
        _exit(1);
    }
    tutti_cluster_worker_close(worker);
}

static void write_cluster(void)
{
    char path[600];
    FILE *file;

    snprintf(path, sizeof(path), "%s/cluster.json", folder);
    file = fopen(path, "w");
    REQUIRE(file != NULL);
    fprintf(file, "{\"worker\": [\"%s\", \"%s\"]}", addresses[0], addresses[1]);
    fclose(file);
}

static void start_players(int prepare, int train)
{
    REQUIRE(make_folder());
    memset(workers, 0, sizeof(workers));
    start_player(0, 1, train);
    start_player(1, prepare, NEVER);
    write_cluster();
}

#define PLAY TRAIN "--model mlp --checkpoint ck --deadline 2s "

/* A driver that is asked to end waits for its workers no longer than the deadline, and does not say
 * that they have saved. */
TEST(workers_that_do_not_end_in_time_are_no_success)
{
    int status = 0;
    pid_t driver;

    start_players(1, NEVER);
    driver = start("TUTTI_SECRET=" SECRET " exec " PLAY ">play.log 2>play.notes");
    free(wait_for("play.log", "plays"));
    free(wait_for("play.notes", "[worker 1] plays"));
    (void)kill(driver, SIGTERM);
    (void)waitpid(driver, &status, 0);
    CHECK_INT(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 1);
    free(wait_for("play.notes", "2 tasks had not ended, and perhaps not saved, when time ran out"));
    end_workers();
    start_players(1, 42);
    check_script(PLAY, 1, "plays",
                 "1 task had not ended, and perhaps not saved, when time ran out");
    end_workers();
    start_players(NEVER, NEVER);
    check_script(PLAY, 1, "", "') has not answered within 2s (--deadline)");
    end_workers();
}

/* Nobody trains yet, so there is nothing to be saved. */
TEST(a_driver_that_looks_for_workers_ends_when_asked)
{
    int status = 0;
    pid_t driver;

    REQUIRE(make_folder());
    for (int i = 0; i < 2; i++)
        snprintf(addresses[i], sizeof(addresses[0]), "127.0.0.1:%u",
                 test_free_port(test_seed + 40 + (uint64_t)i));
    write_cluster();
    driver = start("TUTTI_SECRET=" SECRET " exec " TRAIN
                   "--model mlp --checkpoint ck --deadline 4s >look.log 2>look.notes");
    pause_ms(300);
    (void)kill(driver, SIGTERM);
    (void)waitpid(driver, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    remove_folder();
}
