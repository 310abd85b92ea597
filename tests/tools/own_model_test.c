/* The example of a model of one's own: one program, which learns the same on one device, by
 * threads, by processes that TF_CONFIG or mpirun names; and what the README that shows it says. */
#include <dirent.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/status.h"
#include "tests/runtime/ports.h"
#include "tests/test.h"
#include "traces/tensorboard.h"

/* The program itself, for its model. */
#define main own_model
int own_model(int count, char **words);
#include "tools/examples/own_model.c"
#undef main

enum { TEXT_MAX = 1 << 17, WEIGHTS = 3 * UNITS };

#define EXAMPLES TUTTI_BINARY_DIR "/tests/examples"
#define README   "runtime/train/README.md"

/* What a line of shell prints, on both streams; its exit code. */
static int shell(const char *command, char *seen)
{
    FILE *pipe = popen(command, "r");
    int status;

    seen[0] = '\0';
    if (pipe == NULL)
        return -1;
    seen[fread(seen, 1, TEXT_MAX - 1, pipe)] = '\0';
    while (!feof(pipe) && !ferror(pipe))
        (void)fgetc(pipe);
    status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Two workers that TF_CONFIG names, `line` each, ended by a redirection of its own or none. */
static void print_workers(char *command, size_t bytes, uint64_t seed, const char *line)
{
    const uint16_t first = test_free_port(test_seed + seed);
    const uint16_t second = test_free_port(test_seed + seed + 1);
    static const char form[] =
        "TF_CONFIG='{\"cluster\":{\"worker\":[\"127.0.0.1:%u\",\"127.0.0.1:%u\"]},\"task\":{"
        "\"type\":\"worker\",\"index\":%d}}' %s";
    size_t used;

    snprintf(command, bytes, form, first, second, 1, line);
    used = strlen(command);
    snprintf(command + used, bytes - used, " >/dev/null & other=$!; ");
    used = strlen(command);
    snprintf(command + used, bytes - used, form, first, second, 0, line);
    used = strlen(command);
    snprintf(command + used, bytes - used, "; mine=$?; wait $other && exit $mine");
}

/* The environment of an mpirun that may start more processes than there are processors. */
static const char mpi[] =
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none; ";

static bool has_mpirun(void)
{
    return TUTTI_MPIRUN[0] != '\0' && access(TUTTI_MPIRUN, X_OK) == 0;
}

/* The hash of the weights in the last line, whichever form the line has. */
static void find_weights(const char *seen, char ret[17])
{
    const char *at = seen;
    const char *last = NULL;

    while ((at = strstr(at, "weights")) != NULL)
        last = at++;
    ret[0] = '\0';
    if (last != NULL)
        (void)sscanf(last, "weights%*[\": ]%16[0-9a-f]", ret);
}

static void run_to_weights(const char *command, char ret[17])
{
    static char seen[TEXT_MAX];

    if (shell(command, seen) != 0)
        TEST_FAIL("'%s' fails: %s", command, seen);
    find_weights(seen, ret);
    CHECK_INT(strlen(ret), 16);
}

TEST(one_word_and_the_launcher_change_and_the_weights_do_not)
{
    char threads[17], weights[17];
    char command[2000];

    run_to_weights("TUTTI_REPLICAS=2 " EXAMPLES "/own_model mirrored 2>&1", threads);
    run_to_weights("TUTTI_REPLICAS=2 " EXAMPLES "/own_model multiworkermirrored 2>&1", weights);
    CHECK_TEXT(weights, threads);
    print_workers(command, sizeof(command), 10, EXAMPLES "/own_model multiworkermirrored 2>&1");
    run_to_weights(command, weights);
    CHECK_TEXT(weights, threads);
    run_to_weights(EXAMPLES "/own_model onedevice 2>&1", weights);
    CHECK(strcmp(weights, threads) != 0); /* another order of sums: see below */
}

TEST(mpirun_is_a_launcher_as_well)
{
    char threads[17], weights[17];
    char command[2000];

    if (!has_mpirun())
        SKIP("no mpirun beside the MPI of this build");
    run_to_weights("TUTTI_REPLICAS=2 " EXAMPLES "/own_model mirrored 2>&1", threads);
    snprintf(command, sizeof(command),
             "%s timeout 60 '" TUTTI_MPIRUN "' -n 2 " EXAMPLES
             "/own_model multiworkermirrored 2>&1",
             mpi);
    run_to_weights(command, weights);
    CHECK_TEXT(weights, threads);
}

static void learn(const char *strategy, uint32_t count, float weights[WEIGHTS])
{
    const struct tutti_replica_variable shapes[] = {{"inner", UNITS, 2}, {"outer", UNITS, 1}};
    const struct tutti_replica_model model = {.size = sizeof(model),
                                              .name = "sine",
                                              .variables = shapes,
                                              .variable_count = 2,
                                              .init = init,
                                              .forward_backward = forward_backward,
                                              .example_count = 4096,
                                              .input_count = 1,
                                              .read = load};
    const struct tutti_replica_training training = {.size = sizeof(training),
                                                    .steps = 300,
                                                    .global_batch = 64,
                                                    .optimizer = "adam",
                                                    .learning_rate = 0.01};
    const struct tutti_replicas_params how = {
        .size = sizeof(how), .strategy = strategy, .replica_count = count};
    struct tutti_replica_result result;
    struct tutti_replicas *replicas = NULL;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_replicas_open(&how, &replicas, &err), err);
    CHECK_OK(tutti_replicas_train(replicas, &model, &training, weights, &result, &err), err);
    tutti_replicas_close(replicas);
}

TEST(replicas_learn_what_one_device_learns)
{
    float one[WEIGHTS], more[WEIGHTS];

    learn("onedevice", 1, one);
    for (uint32_t n = 2; n <= 4; n++) {
        double difference = 0, size = 0;

        learn(n % 2 == 0 ? "mirrored" : "multiworkermirrored", n, more);
        for (int i = 0; i < WEIGHTS; i++) {
            difference += pow((double)one[i] - (double)more[i], 2);
            size += pow((double)one[i], 2);
        }
        printf("%u replicas: relative distance %.2e\n", n, sqrt(difference / size));
        CHECK(sqrt(difference / size) <= 1e-6);
    }
}

TEST(a_strategy_that_is_none_is_said_once)
{
    static char seen[TEXT_MAX];

    CHECK_INT(shell(EXAMPLES "/own_model parameter-server 2>&1", seen), 1);
    CHECK(strstr(seen, "strategy 'parameter-server' without servers (TF_CONFIG ") != NULL);
    CHECK(strchr(seen, '\n') == seen + strlen(seen) - 1);
    CHECK_INT(shell(EXAMPLES "/own_model 2>&1", seen), 1);
    CHECK(strstr(seen, "own_model: no strategy (onedevice, ") == seen);
}

/* A server and two workers, of which the first is the chief and says what there is to say. */
static void print_servers(char *command, size_t bytes, uint64_t seed, const char *strategy)
{
    static const char *const tasks[] = {"ps\",\"index\":0", "worker\",\"index\":1",
                                        "worker\",\"index\":0"};
    const uint16_t port = test_free_port(test_seed + seed);
    size_t used = 0;

    for (int i = 0; i < 3; i++, used = strlen(command))
        snprintf(command + used, bytes - used,
                 "TF_CONFIG='{\"cluster\":{\"ps\":[\"127.0.0.1:%u\"],\"worker\":[\"127.0.0.1:1\","
                 "\"127.0.0.1:2\"]},\"task\":{\"type\":\"%s}}' " EXAMPLES "/own_model %s 2>&1%s",
                 port, tasks[i], strategy,
                 i < 2 ? " >/dev/null & " : "; mine=$?; wait; exit $mine");
}

TEST(servers_train_the_same_program)
{
    static const char *const strategies[] = {"parameter-server",
                                             "parameter-server,sync=2,partition=fixed:2"};
    static char seen[TEXT_MAX];
    char command[2000];

    for (int i = 0; i < 2; i++) {
        double held_out = 1;
        const char *at;

        print_servers(command, sizeof(command), 40 + (uint64_t)i, strategies[i]);
        CHECK_INT(shell(command, seen), 0);
        at = strstr(seen, "{\"held_out\":{\"step\":300,\"loss\":");
        if (at == NULL || sscanf(at, "{\"held_out\":{\"step\":300,\"loss\":%lf", &held_out) != 1)
            TEST_FAIL("%s says %s", strategies[i], seen);
        CHECK(held_out < 0.02);
    }
    CHECK_INT(shell(EXAMPLES "/own_loop parameter-server 2>&1", seen), 1);
}

/* ---- what is left in the folder -------------------------------------------------------------- */

/* The events of the only file of them. */
static void check_events(const char *folder)
{
    struct tutti_tensorboard_log log = {0};
    struct tutti_err err = {.text = ""};
    struct dirent *entry;
    DIR *dir = opendir(folder);
    char path[600] = "";
    uint32_t files = 0, losses = 0, held_out = 0, histograms = 0;
    size_t count = 0;
    char *bytes;

    REQUIRE(dir != NULL);
    while ((entry = readdir(dir)) != NULL)
        if (strncmp(entry->d_name, "events.out.", 11) == 0) {
            snprintf(path, sizeof(path), "%s/%.255s", folder, entry->d_name);
            files++;
        }
    closedir(dir);
    CHECK_INT(files, 1);
    bytes = test_read_file(path, &count);
    REQUIRE(bytes != NULL);
    CHECK_OK(tutti_tensorboard_parse(path, (const uint8_t *)bytes, count, &log, &err), err);
    for (size_t i = 0; i < log.event_count; i++) {
        losses += strcmp(log.events[i].tag, "train/loss") == 0;
        held_out += strcmp(log.events[i].tag, "held_out/loss") == 0;
        histograms += log.events[i].kind == TUTTI_TENSORBOARD_HISTOGRAM;
        if (strcmp(log.events[i].tag, "weights/outer") == 0)
            CHECK(log.events[i].histogram.num == UNITS);
    }
    CHECK_INT(losses, 300);
    CHECK_INT(held_out, 1);
    CHECK_INT(histograms, 4);
    tutti_tensorboard_log_free(&log);
    free(bytes);
}

TEST(checkpoints_and_events_need_no_change_of_the_program)
{
    static char seen[TEXT_MAX];
    char folder[] = "/tmp/tutti_own_XXXXXX";
    char command[2000], line[300];
    char first[17], second[17];

    REQUIRE(mkdtemp(folder) != NULL);
    snprintf(line, sizeof(line), EXAMPLES "/own_model multiworkermirrored %s 2>&1", folder);
    print_workers(command, sizeof(command), 20, line);
    run_to_weights(command, first);
    check_events(folder);
    snprintf(command, sizeof(command), "TUTTI_REPLICAS=3 " EXAMPLES "/own_model fsdp %s 2>&1",
             folder); /* restored: nothing is left to train */
    run_to_weights(command, second);
    CHECK_TEXT(second, first);
    CHECK_INT(shell(command, seen), 0);
    CHECK(strstr(seen, "\"step_s\"") == NULL);
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    CHECK_INT(shell(command, seen), 0);
}

/* ---- the page -------------------------------------------------------------------------------- */

static char *read_page(const char *name)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", TUTTI_SOURCE_DIR, name);
    return test_read_file(path, NULL);
}

TEST(the_page_shows_the_program_whole)
{
    char *page = read_page(README);
    char *program = read_page("tools/examples/own_model.c");
    const char *shown = page != NULL ? strstr(page, "```c\n") : NULL;
    uint32_t lines = 0;

    REQUIRE(shown != NULL);
    REQUIRE(program != NULL);
    for (const char *p = program; *p != '\0'; p++)
        lines += *p == '\n';
    CHECK(lines <= 80);
    shown += strlen("```c\n");
    if (strncmp(shown, program, strlen(program)) != 0 ||
        strncmp(shown + strlen(program), "```\n", 4) != 0)
        TEST_FAIL(README " does not show tools/examples/own_model.c as it is");
    free(page);
    free(program);
}

/* The first `what` of the line becomes `instead`; one that ends in a blank takes the word behind it
 * along. */
static void shorten(char *command, size_t bytes, const char *what, const char *instead)
{
    char *at = strstr(command, what);
    const size_t length = strlen(what);
    char rest[2000];

    if (at == NULL)
        return;
    snprintf(rest, sizeof(rest), "%s",
             at + length + (what[length - 1] == ' ' ? strcspn(at + length, " \n") : 0));
    snprintf(at, bytes - (size_t)(at - command), "%s%s", instead, rest);
}

/* Lines of the page that are commands; those with TF_CONFIG stand in pairs and run at once. */
TEST(every_command_of_the_page_runs)
{
    static char seen[TEXT_MAX];
    char *page = read_page(README);
    char folder[] = "/tmp/tutti_page_XXXXXX";
    char command[4000], line[1500], pending[1500] = "";
    char hosts[64] = "";
    bool fenced = false;
    int count = 0;
    int status;

    REQUIRE(page != NULL);
    REQUIRE(mkdtemp(folder) != NULL);
    snprintf(command, sizeof(command),
             "cd %s && ln -s '%s'/* . && rm -f build && ln -s '%s' build 2>&1", folder,
             TUTTI_SOURCE_DIR, TUTTI_BINARY_DIR);
    CHECK_INT(shell(command, seen), 0);
    for (const char *p = page; *p != '\0'; p += strcspn(p, "\n"), p += *p == '\n') {
        const bool is_worker =
            strncmp(p, "    TF_CONFIG=", 14) == 0 &&
            strncmp(strchr(p, '}') + 2, "\"task\":{\"type\":\"worker\"", 22) == 0;

        fenced = fenced != (strncmp(p, "```", 3) == 0);
        if (fenced || strncmp(p, "    ", 4) != 0)
            continue;
        if (strncmp(p, "    mpirun", 10) == 0 && !has_mpirun())
            continue;
        snprintf(line, sizeof(line), "%.*s", (int)strcspn(p + 4, "\n"), p + 4);
        shorten(line, sizeof(line), "--steps ", "--steps 2");
        shorten(line, sizeof(line), "--epochs ", "--steps 2");
        if (strstr(line, "-B ") != NULL)
            shorten(line, sizeof(line), "--batch ", "--batch 4");
        shorten(line, sizeof(line), " --evaluate end", "");
        shorten(line, sizeof(line), "--hosts a,b", "--hosts a,b --dry-run");
        if (is_worker && pending[0] == '\0')
            snprintf(hosts, sizeof(hosts), "\"127.0.0.1:%u\",\"127.0.0.1:%u\"",
                     test_free_port(test_seed + 31 + (uint64_t)count),
                     test_free_port(test_seed + 41 + (uint64_t)count));
        if (is_worker)
            shorten(line, sizeof(line), "\"a:2222\",\"b:2222\"", hosts);
        count++;
        if (is_worker && pending[0] == '\0') {
            snprintf(pending, sizeof(pending), "%s", line);
            continue;
        }
        snprintf(command, sizeof(command), "cd %s && PATH='%s':\"$PATH\" && %s { %s%s%s%s; } 2>&1",
                 folder, TUTTI_BINARY_DIR, mpi, pending, pending[0] != '\0' ? " & other=$!; " : "",
                 line, pending[0] != '\0' ? " && wait $other" : "");
        pending[0] = '\0';
        status = shell(command, seen);
        if (status == 77) /* a GPU, which machines lack on which this is tested */
            printf("'%s' has not run: %s\n", line, seen);
        else if (status != 0)
            TEST_FAIL(README ": '%s' fails: %s", line, seen);
    }
    printf("%d commands\n", count);
    CHECK(count >= 18);
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    CHECK_INT(shell(command, seen), 0);
    free(page);
}
