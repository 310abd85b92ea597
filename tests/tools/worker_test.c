/* A laptop drives a cluster that stands: `tutti worker` processes, and `tutti train --cluster` one
 * after the other, however each of them ends; and what runtime/cluster/README.md says. */
#include <fcntl.h>

#include "runtime/status.h"
#include "tests/runtime/ports.h"
#include "tests/tools/standing.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "tools/worker/job.h"

#define README "runtime/cluster/README.md"

enum { TRAINING = 2, IDLE_MS = 1000 };

/* ---- workers --------------------------------------------------------------------------------- */

/* Workers with a secret and one folder, and files that name two of them as workers, or all four as
 * chief, workers and parameter server. */
static bool start_workers(void)
{
    static const char *const files[] = {"cluster", "servers"};
    static const char *const forms[] = {"{\"worker\": [\"%s\", \"%s\"]}",
                                        "{\"worker\": [\"%s\", \"%s\"], \"chief\": [\"%s\"], "
                                        "\"ps\": [\"%s\"]}"};
    char line[600];

    if (!make_folder())
        return false;
    for (int i = 0; i < WORKERS; i++) {
        snprintf(line, sizeof(line), "%s/w%d.log", folder, i);
        (void)unlink(line);
        snprintf(line, sizeof(line),
                 "mkdir -p files; TUTTI_SECRET=" SECRET " exec " TUTTI
                 "worker --name w%d --dir files >w%d.log 2>w%d.notes",
                 i, i, i);
        workers[i] = start(line);
    }
    for (int i = 0; i < WORKERS; i++) {
        char *said;

        snprintf(line, sizeof(line), "w%d.log", i);
        said = wait_for(line, "\n");
        if (said != NULL)
            snprintf(addresses[i], sizeof(addresses[0]), "%.*s", (int)strcspn(said + 22, ","),
                     said + 22);
        free(said);
    }
    for (int i = 0; i < 2; i++) {
        FILE *file;

        snprintf(line, sizeof(line), "%s/%s.json", folder, files[i]);
        file = fopen(line, "w");
        if (file == NULL)
            return false;
        fprintf(file, forms[i], addresses[0], addresses[1], addresses[2], addresses[3]);
        fclose(file);
    }
    return true;
}

/* The child of a worker, or 0. */
static pid_t child_of(pid_t worker)
{
    char path[64];
    char *text;
    pid_t id;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", worker, worker);
    text = test_read_file(path, NULL);
    id = text != NULL ? (pid_t)strtol(text, NULL, 10) : 0;
    free(text);
    return id;
}

static bool are_idle(void)
{
    for (int ms = 0; ms < IDLE_MS; ms += 2, pause_ms(2))
        if (child_of(workers[0]) + child_of(workers[1]) + child_of(workers[2]) +
                child_of(workers[3]) ==
            0)
            return true;
    return false;
}

/* ---- stories --------------------------------------------------------------------------------- */

#define LAST " | tail -n 1 | sed 's/.*weights/weights/'"

/* The weights of a training on the cluster are those of processes that a launcher starts here. */
static void check_same(const char *options)
{
    char line[1000];
    struct seen here;
    struct seen there;

    snprintf(line, sizeof(line), TUTTI "train -B tcp --launch 2 %s" LAST, options);
    here = script(line);
    snprintf(line, sizeof(line), TRAIN "%s" LAST, options);
    there = script(line);
    CHECK(strncmp(text_of(&here.out), "weights", 7) == 0);
    CHECK_TEXT(text_of(&there.out), text_of(&here.out));
    CHECK_TEXT(text_of(&there.err), "");
    seen_done(&here);
    seen_done(&there);
}

TEST(one_training_after_the_other_and_a_changed_model)
{
    REQUIRE(start_workers());
    check_same("--model mlp --strategy multiworkermirrored --steps 5");
    check_script(TUTTI "model show mlp --text | sed 's/100352/50176/; s/1280/640/; s/128/64/g; "
                       "s/912/848/' >mine.model",
                 0, "", "");
    check_same("--model mine.model --strategy zero1 --optimizer adam --steps 5");
    check_script(TRAIN "--model mlp --steps 4 --checkpoint ck --format table", 0, "weights", "");
    check_script("ls files/ck", 0, "step-000004.0", "");
    check_script(TRAIN "--model mlp --steps 6 --checkpoint ck", 0, "{\"step\":5,",
                 "[worker 0] tutti train: restored step 4");
    CHECK(are_idle());
    end_workers();
}

/* The same path as processes with that TF_CONFIG: a chief and two workers, and a server that ends
 * when they do. */
TEST(parameter_servers_stand_as_well)
{
    REQUIRE(start_workers());
    check_script(TUTTI "train --cluster servers.json --strategy parameter-server --steps 40 "
                       "--model linear-regression",
                 0, "{\"final\":{\"steps\":40,", "");
    CHECK(are_idle());
    end_workers();
}

/* A training that does not end by itself, once it has begun; its driver. */
static pid_t start_long(void)
{
    char path[600];
    pid_t driver;

    snprintf(path, sizeof(path), "%s/long.log", folder);
    (void)unlink(path);
    driver = start("TUTTI_SECRET=" SECRET " exec " TRAIN
                   "--model mlp --steps 100000000 >long.log 2>long.notes");
    free(wait_for("long.log", "\"step\":3,"));
    return driver;
}

/* SIGTERM to a driver with checkpoints: all save the step at which they stop, and say 42. */
TEST(a_driver_that_is_asked_to_end_lets_workers_save)
{
    struct seen seen;
    int status = 0;
    pid_t driver;

    REQUIRE(start_workers());
    driver = start("TUTTI_SECRET=" SECRET " exec " TRAIN
                   "--model mlp --steps 100000000 --checkpoint saved >term.log 2>term.notes");
    free(wait_for("term.log", "\"step\":3,"));
    (void)kill(driver, SIGTERM);
    (void)waitpid(driver, &status, 0);
    CHECK_INT(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 42);
    CHECK(are_idle());
    seen = script("ls files/saved | grep -c '^step-'");
    CHECK_TEXT(text_of(&seen.out), "1\n");
    seen_done(&seen);
    end_workers();
}

/* However the driver ends. Then the same workers train another model. */
static void end_driver(int number)
{
    pid_t children[TRAINING];
    pid_t driver;

    driver = start_long();
    for (int i = 0; i < TRAINING; i++) {
        children[i] = child_of(workers[i]);
        CHECK(children[i] > 0);
    }
    check_script(TRAIN "--model mlp --steps 1", 1, "", "serves another driver ('127.0.0.1:");
    (void)kill(driver, number);
    (void)waitpid(driver, NULL, 0);
    CHECK(are_idle());
    for (int i = 0; i < TRAINING; i++)
        CHECK(kill(children[i], 0) != 0);
    check_script(TRAIN "--model linear-regression --steps 2", 0, "{\"final\":{\"steps\":2,", "");
}

TEST(a_driver_that_ends_leaves_idle_workers)
{
    REQUIRE(start_workers());
    end_driver(SIGINT);
    end_driver(SIGKILL);
    end_workers();
}

/* The process of worker 1 is killed: the driver ends, says which, and all are idle. */
static void lose_a_process(void)
{
    pid_t driver = start_long();
    pid_t lost = child_of(workers[1]);
    int status = 0;

    REQUIRE(lost > 0);
    (void)kill(lost, SIGKILL);
    (void)waitpid(driver, &status, 0);
    CHECK_INT(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 1);
    free(wait_for("long.notes", "worker 1 ('127.0.0.1:"));
    free(wait_for("long.notes", "the process in which it ran was ended by signal 9 (Killed)"));
    CHECK(are_idle());
}

/* A driver that keeps to no rules: what it says `train` is to do, and why the worker does not. */
static void say_rudely(const char *name, const char *value, const char *expected)
{
    const struct tutti_cluster_link_opts opts = {
        .size = sizeof(opts), .secret = SECRET, .secret_bytes = strlen(SECRET)};
    const struct tutti_job_text job = {
        .word_count = 2, .words = {name, value}, .model = "", .tf_config = ""};
    struct tutti_cluster_link_event said = {.data = ""};
    struct tutti_cluster_link *link = NULL;
    struct tutti_err err = {""};
    uint8_t *input = NULL;
    uint64_t bytes = 0;

    CHECK_OK(tutti_cluster_link_open(&opts, addresses[0], "worker 0", &link, &err), err);
    REQUIRE(link != NULL);
    CHECK_OK(tutti_job_write(&job, &input, &bytes, &err), err);
    CHECK_OK(tutti_cluster_link_call(link, 1, TUTTI_JOB_TRAIN, input, bytes, &err), err);
    CHECK_OK(tutti_cluster_link_next(link, 60 * TUTTI_PS_PER_S, &said, &err), err);
    CHECK_INT(said.kind, TUTTI_CLUSTER_LINK_FAILED);
    if (said.kind != TUTTI_CLUSTER_LINK_FAILED || strstr(said.data, expected) == NULL)
        TEST_FAIL("'%s' does not say '%s'", said.data, expected);
    free(input);
    tutti_cluster_link_close(link);
}

/* SIGTERM that comes before the training listens for it is not lost, and does not kill it. */
static void stop_at_once(void)
{
    const struct tutti_cluster_link_opts opts = {
        .size = sizeof(opts), .secret = SECRET, .secret_bytes = strlen(SECRET)};
    struct tutti_job_text job = {
        .word_count = 6,
        .words = {"model", "mlp", "steps", "100000000", "checkpoint", "at-once"},
        .model = ""};
    struct tutti_cluster_link_event said = {.data = ""};
    struct tutti_cluster_link *link = NULL;
    struct tutti_err err = {""};
    uint8_t *input = NULL;
    uint64_t bytes = 0;
    char config[200];

    snprintf(config, sizeof(config),
             "{\"cluster\": {\"worker\": [\"127.0.0.1:%u\"]}, "
             "\"task\": {\"type\": \"worker\", \"index\": 0}}",
             test_free_port(test_seed + 50));
    job.tf_config = config;
    CHECK_OK(tutti_cluster_link_open(&opts, addresses[0], "worker 0", &link, &err), err);
    REQUIRE(link != NULL);
    CHECK_OK(tutti_cluster_link_call(link, 1, TUTTI_JOB_PREPARE, NULL, 0, &err), err);
    CHECK_OK(tutti_cluster_link_next(link, 60 * TUTTI_PS_PER_S, &said, &err), err);
    CHECK_OK(tutti_job_write(&job, &input, &bytes, &err), err);
    CHECK_OK(tutti_cluster_link_call(link, 2, TUTTI_JOB_TRAIN, input, bytes, &err), err);
    CHECK_OK(tutti_cluster_link_stop(link, &err), err);
    do
        CHECK_OK(tutti_cluster_link_next(link, 60 * TUTTI_PS_PER_S, &said, &err), err);
    while (said.kind == TUTTI_CLUSTER_LINK_OUT || said.kind == TUTTI_CLUSTER_LINK_NOTE);
    CHECK_INT(said.kind, TUTTI_CLUSTER_LINK_DONE);
    CHECK(said.bytes == 4 && memcmp(said.data, "\x2a\0\0", 4) == 0); /* 42 */
    free(input);
    tutti_cluster_link_close(link);
}

TEST(a_worker_that_is_asked_to_end_at_once_saves)
{
    REQUIRE(start_workers());
    stop_at_once();
    CHECK(are_idle());
    end_workers();
}

TEST(what_fails_is_named_behind_its_task)
{
    REQUIRE(start_workers());
    check_script(TRAIN "--model mlp --strategy onedevice --steps 1", 2, "",
                 "[worker 0] tutti train: strategy 'onedevice' on '2' ranks");
    lose_a_process();
    say_rudely("model", "/etc/passwd", "model '/etc/passwd' is no name");
    say_rudely("checkpoint", "/etc/x", "'/etc/x' lies outside of");
    say_rudely("launcher", "none", "option '--launcher' says nothing to standing workers");
    say_rudely("cluster", "cluster.json", "option '--cluster' says nothing to standing workers");
    say_rudely("no-option", "", "a job with an option 'no-option', which is none");
    check_script(TRAIN "--model mlp --steps 1 --checkpoint /etc/tutti", 2, "",
                 "option '--checkpoint': '/etc/tutti' lies outside of '/tmp/tutti_worker_");
    check_script("ln -sfn /etc files/link; " TRAIN "--model mlp --steps 1 --checkpoint link/ck", 2,
                 "", "'link/ck' lies outside of");
    check_script(TRAIN "--model mlp --steps 1 --tensorboard ../x", 2, "", "lies outside of");
    check_script("unset TUTTI_SECRET; " TRAIN "--model mlp --steps 1", 2, "",
                 "wants a secret, and this process has none");
    check_script("export TUTTI_SECRET=" SECRET "0; " TRAIN "--model mlp --steps 1", 2, "",
                 "has another secret than this process");
    check_script(TRAIN "--model linear-regression --steps 2", 0, "{\"final\":{\"steps\":2,", "");
    end_workers();
}

/* ---- the options of train -------------------------------------------------------------------- */

static int check_option(const char *name, const char *value, const char *dir, struct tutti_err *err)
{
    char option[64];
    char *words[] = {option, (char *)(uintptr_t)value};
    struct tutti_args args;
    int status;

    snprintf(option, sizeof(option), "--%s", name);
    status = tutti_args_parse(&tutti_cli_train, 2, words, &args, err);
    if (status < 0)
        return status;
    status = tutti_job_check(&args, dir, err);
    tutti_args_done(&args);
    return status;
}

/* Of every option whose value may be a file: one outside of --dir is refused. So will those be that
 * train does not have yet. */
TEST(no_option_of_train_leads_out_of_the_folder)
{
    uint32_t count = 0;

    for (size_t i = 0; i < tutti_cli_train.option_count; i++) {
        const struct tutti_option *option = &tutti_cli_train.options[i];
        const bool names = option->value != NULL && (strstr(option->value, "FILE") != NULL ||
                                                     strstr(option->value, "FOLDER") != NULL ||
                                                     strstr(option->value, "SPEC") != NULL);
        struct tutti_err err = {""};

        if (!names || strcmp(option->name, "cluster") == 0 || strcmp(option->name, "model") == 0)
            continue;
        count++;
        if (check_option(option->name, strcmp(option->name, "data") == 0 ? "mnist:/etc" : "/etc/x",
                         "/tmp", &err) != -TUTTI_EINVAL)
            TEST_FAIL("option '--%s' lets a driver name '/etc/x'", option->name);
    }
    CHECK(count >= 10);
    CHECK_INT(check_option("checkpoint", "ck/of/this", "/tmp", NULL), 0);
    CHECK_INT(check_option("checkpoint", "/tmp/ck", "/tmp", NULL), 0);
    CHECK_INT(check_option("checkpoint", "/tmpx", "/tmp", NULL), -TUTTI_EINVAL);
    CHECK_INT(check_option("checkpoint", "a/../../etc", "/tmp", NULL), -TUTTI_EINVAL);
    CHECK_INT(check_option("checkpoint", "..", "/tmp", NULL), -TUTTI_EINVAL);
    CHECK_INT(check_option("checkpoint", "a", NULL, NULL), -TUTTI_EINVAL);
    CHECK_INT(check_option("all-reduce", "./own.so", "/tmp", NULL), -TUTTI_EINVAL);
}

/* A name of --emulate is a file's where there is such a file. */
TEST(a_machine_in_a_file_is_a_file)
{
    int back = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    REQUIRE(make_folder());
    REQUIRE(back >= 0 && chdir(folder) == 0);
    close(open("machine", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    (void)unlink("outside");
    CHECK_INT(symlink("/etc/hosts", "outside"), 0);
    CHECK_INT(check_option("emulate", "machine", NULL, NULL), -TUTTI_EINVAL);
    CHECK_INT(check_option("emulate", "machine", folder, NULL), 0);
    CHECK_INT(check_option("emulate", "outside", folder, NULL), -TUTTI_EINVAL);
    CHECK_INT(check_option("emulate", "local:facts=machine", NULL, NULL), -TUTTI_EINVAL);
    CHECK_INT(check_option("emulate", "local:ranks=2,facts=outside", folder, NULL), -TUTTI_EINVAL);
    CHECK_INT(check_option("emulate", "local:ranks=2", NULL, NULL), 0);
    CHECK_INT(check_option("emulate", "dgx-h100", NULL, NULL), 0);
    CHECK_INT(check_option("emulate", "dgx-h100", folder, NULL), 0);
    CHECK_INT(fchdir(back), 0);
    close(back);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void replace_port(char *text, const char *port, uint16_t by)
{
    char number[8];

    snprintf(number, sizeof(number), "%u", by);
    for (char *at = strstr(text, port); at != NULL; at = strstr(at + 1, port)) {
        memmove(at + strlen(number), at + strlen(port), strlen(at + strlen(port)) + 1);
        memcpy(at, number, strlen(number));
    }
}

/* All commands of the page, in order, as one script; the ports are free ones. */
TEST(every_command_of_the_page_runs)
{
    static const char *const ports[] = {"2222", "2223", "2224", "2225", "2226"};
    static char lines[8000] = "set -e; trap 'kill $pids' EXIT; export PATH=" TUTTI_BINARY_DIR
                              ":" TUTTI_BINARY_DIR "/tests/examples:$PATH; unset TUTTI_SECRET\n";
    char path[600];
    size_t length;
    char *page;
    int count = 0;

    REQUIRE(make_folder());
    snprintf(path, sizeof(path), "%s/%s", TUTTI_SOURCE_DIR, README);
    page = test_read_file(path, NULL);
    REQUIRE(page != NULL);
    for (const char *p = page; *p != '\0'; p += strcspn(p, "\n"), p += *p == '\n') {
        if (strncmp(p, "    ", 4) != 0)
            continue;
        count++;
        length = strcspn(p, "\n");
        snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%.*s%s\n", (int)length, p,
                 p[length - 1] == '&' ? " pids=\"$pids $!\"" : "");
    }
    free(page);
    for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++)
        replace_port(lines, ports[i], test_free_port(test_seed + 60 + i));
    CHECK(count >= 14);
    check_script(lines, 0, "78498 primes below 1000000", "");
    remove_folder();
}
