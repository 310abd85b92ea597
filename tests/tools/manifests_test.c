/* `tutti launch`: what it prints is YAML and a batch script; the processes that it describes are
 * started here, with the environment that it sets, and train; those that are lost come back. */
#include <glob.h>
#include <poll.h>

#include "tests/test.h"
#include "tests/tools/commands.h"
#include "tests/tools/pods.h"
#include "tests/tools/yaml.h"

#define TUTTI      TUTTI_BINARY_DIR "/tutti "
#define KUBERNETES TUTTI "launch kubernetes "
#define CONTAINER  "1.spec.template.spec.containers.0"
#define STAND_INS  TUTTI_SOURCE_DIR "/tests/fixtures/launch/slurm"
#define SECRET     "of-no-worth-to-anybody-at-all-32"

/* A line a step. What is to be disturbed has more to say than pipes hold that nobody reads. */
#define MODEL "--model linear-regression --global-batch 64 --no-pin --steps "
#define LONG  MODEL "450 "
#define SHORT MODEL "100 "

static struct yaml *read_manifest(const char *command)
{
    struct seen seen = run(command);
    struct yaml *y = yaml_read(text_of(&seen.out));

    if (seen.exit != 0 || seen.err.bytes > 0 || seen.out.bytes == 0)
        TEST_FAIL("%s: exit %d: %s", command, seen.exit, text_of(&seen.err));
    seen_done(&seen);
    return y;
}

static void check_at(const struct yaml *y, const char *path, const char *expected)
{
    const char *seen = yaml_at(y, path);

    if (seen == NULL || strcmp(seen, expected) != 0)
        TEST_FAIL("%s is '%s', expected '%s'", path, seen != NULL ? seen : "(not there)", expected);
}

/* ---- what is printed ------------------------------------------------------------------------- */

static const char *const manifests[] = {
    KUBERNETES "--worker 2 -- --model mlp",
    KUBERNETES
    "--ps 2 --worker 3 --chief --name on --namespace 1e3 --gpus 2 --volume v:/data "
    "--restarts 0 -- --model mlp --checkpoint '/data/a $(b) \"c\\d'\"'\"'' --stop-code 9",
    KUBERNETES "--worker 1 --name yes --image registry.example:5000/a/b@sha256:0 -- -m mlp --open",
    KUBERNETES
    "--tfjob --worker 2 --ps 1 --chief --evaluator --secret null --volume v:/data --gpus "
    "1 -- --model mlp --checkpoint /data/run1",
};

enum { MANIFESTS = sizeof(manifests) / sizeof(manifests[0]) };

/* As another reader flattens it: "0.spec.ports.0.port=2222". */
static void print_flat(const struct yaml *y, struct text *ret)
{
    text_add(ret, "", 0);
    for (int i = 0; i < y->count; i++) {
        text_add(ret, y->paths[i], strlen(y->paths[i]));
        text_add(ret, "=", 1);
        for (const char *p = text_of(&y->values[i]); *p != '\0'; p++)
            text_add(ret, *p == '\n' ? "|" : p, 1);
        text_add(ret, "\n", 1);
    }
}

TEST(manifests_are_read_by_others_as_they_are_meant)
{
    static const char python[] =
        ") | python3 -c '\n"
        "import sys\n"
        "try: import yaml\n"
        "except ImportError: sys.exit(77)\n"
        "def flat(p, v):\n"
        "    if isinstance(v, dict):\n"
        "        for k, w in v.items(): flat(p + \".\" + k, w)\n"
        "    elif isinstance(v, list):\n"
        "        for i, w in enumerate(v): flat(p + \".%d\" % i, w)\n"
        "    elif isinstance(v, bool): print(p + \"=\" + str(v).lower())\n"
        "    elif isinstance(v, (int, str)): print(p + \"=\" + str(v).replace(\"\\n\", \"|\"))\n"
        "    else: print(p + \"=neither text nor number\", v)\n"
        "for i, d in enumerate(yaml.safe_load_all(sys.stdin)): flat(str(i), d)'";

    struct text command = {.at = NULL};
    struct text all = {.at = NULL};
    struct text flat = {.at = NULL};
    struct yaml *y;
    struct seen seen;

    text_add(&all, "(", 1);
    for (int i = 0; i < MANIFESTS; i++) {
        text_add(&all, i > 0 ? "; echo ---; " : "", i > 0 ? 12 : 0);
        text_add(&all, manifests[i], strlen(manifests[i]));
    }
    text_add(&command, text_of(&all), all.bytes);
    text_add(&command, python, strlen(python));
    text_add(&all, ")", 1);
    y = read_manifest(text_of(&all));
    print_flat(y, &flat);
    CHECK(flat.bytes > 0);
    seen = run(text_of(&command));
    if (seen.exit != 77 && seen.exit != 127)
        CHECK_TEXT(text_of(&seen.out), text_of(&flat));
    if (seen.exit != 77 && seen.exit != 127)
        CHECK_TEXT(text_of(&seen.err), "");
    text_done(&command);
    text_done(&all);
    text_done(&flat);
    yaml_free(y);
    seen_done(&seen);
    if (seen.exit == 77 || seen.exit == 127)
        SKIP("no python3 here that reads YAML (Debian's python3-yaml)");
}

/* A reader that takes everything would prove nothing. */
TEST(the_reader_of_this_test_is_strict)
{
    static const char *const wrong[] = {
        "a: b c\n",     "a: \"b\n",    "a: \"b\"c\"\n",  "a:\n",          "a:\n  b: c\n d: e\n",
        "a: b\na: c\n", "\ta: b\n",    "a: b\n\nc: d\n", "- a\nb: c\n",   "a: b\n  c: d\n",
        "a: |\nb: c\n", "a: [b, c]\n", "-a\n",           "a: \"b\\n\"\n", " a: b\n",
        "a: {b: c}\n",  "a: &b c\n",   "---\n",          "a:b\n",         "a: 'b''c'\n"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct yaml *y = yaml_try(wrong[i]);

        if (!y->failed)
            TEST_FAIL("it takes '%s'", wrong[i]);
        yaml_free(y);
    }
}

/* Service and Job fit together, so that pod i is found as NAME-i.NAME. */
TEST(a_job_and_its_service_fit_together)
{
    struct yaml *y = read_manifest(KUBERNETES "--ps 1 --worker 2 --chief --name j --restarts 3 "
                                              "--namespace lab -- --model mlp --checkpoint /c");

    check_at(y, "0.apiVersion", "v1");
    check_at(y, "0.kind", "Service");
    check_at(y, "0.metadata.name", "j");
    check_at(y, "0.metadata.namespace", "lab");
    check_at(y, "0.spec.clusterIP", "None");
    check_at(y, "0.spec.publishNotReadyAddresses", "true");
    check_at(y, "0.spec.selector.job-name", "j");
    check_at(y, "0.spec.ports.0.port", "2222");
    check_at(y, "1.apiVersion", "batch/v1");
    check_at(y, "1.kind", "Job");
    check_at(y, "1.metadata.name", "j");
    check_at(y, "1.metadata.namespace", "lab");
    check_at(y, "1.spec.completionMode", "Indexed");
    check_at(y, "1.spec.completions", "4");
    check_at(y, "1.spec.parallelism", "4");
    check_at(y, "1.spec.backoffLimitPerIndex", "3");
    check_at(y, "1.spec.maxFailedIndexes", "0");
    check_at(y, "1.spec.successPolicy.rules.0.succeededIndexes", "0");
    check_at(y, "1.spec.template.spec.restartPolicy", "Never");
    check_at(y, "1.spec.template.spec.subdomain", "j");
    check_at(y, CONTAINER ".name", "tutti");
    check_at(y, "1.spec.podFailurePolicy.rules.0.onExitCodes.containerName", "tutti");
    check_at(y, CONTAINER ".env.0.name", "TUTTI_CLUSTER");
    check_at(y, CONTAINER ".env.0.value",
             "{\"chief\":[\"j-0.j:2222\"],\"worker\":[\"j-1.j:2222\",\"j-2.j:2222\"],"
             "\"ps\":[\"j-3.j:2222\"]}");
    check_at(y, CONTAINER ".env.1.valueFrom.secretKeyRef.name", "j");
    yaml_free(y);
}

/* The longest names and the most tasks: TF_CONFIG is one string, of at most 128 KiB in Linux. */
TEST(the_largest_job_fits_into_an_environment)
{
    char command[512];
    struct seen seen;
    const char *value;

    snprintf(command, sizeof(command),
             KUBERNETES "--worker 1024 --name %.48s -- --model mlp | grep -o \"{.*}'$\"",
             "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");
    seen = run(command);
    value = text_of(&seen.out);
    CHECK(strstr(value, "-1023.") != NULL);
    if (seen.out.bytes + 128 > 128 * 1024)
        TEST_FAIL("a cluster of %zu bytes", seen.out.bytes);
    seen_done(&seen);
}

/* ---- pods ------------------------------------------------------------------------------------ */

static char folder[] = "/tmp/tutti-launch-XXXXXX";

static bool folder_make(void)
{
    snprintf(folder, sizeof(folder), "/tmp/tutti-launch-XXXXXX");
    return mkdtemp(folder) != NULL;
}

static void folder_remove(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", folder);
    if (system(command) != 0)
        TEST_FAIL("cannot remove %s", folder);
}

/* The pods of an indexed Job. */
static void job_open(const struct yaml *y, const char *name, struct pods *ret)
{
    char names[PODS_MAX][160];
    const char *cluster = yaml_at(y, CONTAINER ".env.0.value");
    struct text local = {.at = NULL};

    *ret =
        (struct pods){.count = (int)strtol(yaml_at(y, "1.spec.completions"), NULL, 10), .rules = y};
    pods_ports(ret);
    for (int i = 0; i < ret->count; i++)
        snprintf(names[i], sizeof(names[i]), "%s-%d.%s:2222", name, i, name);
    pod_localise(cluster, names, ret->ports, ret->count, &local);
    CHECK(strstr(text_of(&local), "2222") == NULL || strstr(cluster, "2222\"") == NULL);
    for (int i = 0; i < ret->count; i++) {
        struct pod *pod = &ret->pods[i];
        char index[16];

        snprintf(index, sizeof(index), "%d", i);
        pod_words(pod, y, CONTAINER);
        pod_variable(pod, "TUTTI_CLUSTER", text_of(&local));
        pod_variable(pod, "TUTTI_SECRET", SECRET);
        pod_variable(pod, "JOB_COMPLETION_INDEX", index);
    }
    text_done(&local);
}

/* All have ended well, and the first one (of those that train) says the result. */
static void check_trained(const struct pods *pods, int steps)
{
    const int before = test_failures;
    char final[64];

    snprintf(final, sizeof(final), "{\"final\":{\"steps\":%d,", steps);
    CHECK(!pods->failed);
    CHECK(strstr(text_of(&pods->pods[0].said), final) != NULL);
    for (int i = 0; i < pods->count; i++)
        CHECK(pods->pods[i].succeeded || pods->over);
    if (test_failures > before)
        pods_tell(pods);
}

static int count_codes(const struct pods *pods, int code)
{
    int count = 0;

    for (int i = 0; i < pods->code_count; i++)
        count += pods->codes[i] == code;
    return count;
}

static bool has_said(const struct pod *pod, const char *what)
{
    struct text said = {.at = NULL};
    bool found;

    pod_read(pod->err, &said);
    found = strstr(text_of(&said), what) != NULL;
    text_done(&said);
    return found;
}

/* A chief, a worker and an evaluator. The worker is killed: the Job starts it again, the chief
 * waits for it. The worker is told to end: both save, end, and are started again. */
TEST(pods_of_a_job_train_and_those_that_restart_rejoin)
{
    char command[512];
    struct yaml *y;
    struct pods pods;

    REQUIRE(folder_make());
    snprintf(command, sizeof(command),
             KUBERNETES "--worker 1 --chief --evaluator --name j -- " MODEL
                        "300 --checkpoint %s/c --save-every 10 --keep 2",
             folder);
    y = read_manifest(command);
    job_open(y, "j", &pods);
    CHECK_INT(pods.count, 3);
    pods_start(&pods);
    pods_wait(&pods, 1, 30);
    REQUIRE(pods.pods[1].id > 0);
    (void)kill(pods.pods[1].id, SIGKILL);
    pods_wait(&pods, 1, 150); /* nowhere near without the worker */
    CHECK_INT(count_codes(&pods, 128 + SIGKILL), 1);
    CHECK_INT(pods.code_count, 1);
    CHECK(has_said(&pods.pods[0], "restored step"));
    REQUIRE(pods.pods[1].id > 0);
    (void)kill(pods.pods[1].id, SIGTERM);
    pods_wait(&pods, 0, 0);
    CHECK_INT(count_codes(&pods, 42), 2);
    CHECK_INT(pods.pods[0].starts, 2);
    CHECK_INT(pods.pods[1].starts, 3);
    check_trained(&pods, 300);
    pods_done(&pods);
    yaml_free(y);
    folder_remove();
}

/* Wrong usage stays wrong: the Job gives up at once. */
TEST(a_job_does_not_repeat_what_is_wrong)
{
    struct yaml *y = read_manifest(KUBERNETES "--worker 2 --name j -- " SHORT
                                              "--data mnist:/there/is/no/such/folder");
    struct pods pods;

    job_open(y, "j", &pods);
    pods_start(&pods);
    pods_wait(&pods, 0, 0);
    CHECK(pods.failed);
    CHECK(count_codes(&pods, 2) >= 1);
    CHECK(pods.pods[0].starts + pods.pods[1].starts == 2);
    pods_done(&pods);
    yaml_free(y);
}

/* A save goes on behind the steps: until one is there, or it will not come. */
static void wait_for_checkpoint(void)
{
    char pattern[512];
    glob_t found = {.gl_pathc = 0};

    snprintf(pattern, sizeof(pattern), "%s/c/step-*/manifest", folder);
    for (int i = 0; i < 500 && glob(pattern, 0, NULL, &found) != 0; i++)
        (void)poll(NULL, 0, 10);
    globfree(&found);
}

/* A server, a chief and two workers. A worker is killed, and the server; both come again, and all
 * go on from the newest checkpoint. What servers do goes on while nobody reads what the chief says:
 * who has ended before is not killed. */
TEST(servers_of_a_job_serve)
{
    char command[512];
    struct yaml *y;
    struct pods pods;
    int kill_count = 0;
    int killed_count;

    REQUIRE(folder_make());
    snprintf(command, sizeof(command),
             KUBERNETES "--ps 1 --worker 2 --chief --name j -- --model linear-regression --no-pin "
                        "--steps 1000 --checkpoint %s/c --save-every 50",
             folder);
    y = read_manifest(command);
    job_open(y, "j", &pods);
    CHECK_INT(pods.count, 4);
    pods_start(&pods);
    pods_wait(&pods, 1, 1);
    kill_count += pods.pods[2].id > 0 && kill(pods.pods[2].id, SIGKILL) == 0;
    pods_wait(&pods, 1, 60);
    wait_for_checkpoint();
    kill_count += pods.pods[3].id > 0 && kill(pods.pods[3].id, SIGKILL) == 0;
    pods_wait(&pods, 0, 0);
    check_trained(&pods, 1000);
    killed_count = count_codes(&pods, 128 + SIGKILL); /* others had ended, and nobody had looked */
    CHECK(killed_count <= kill_count);
    CHECK(killed_count < 2 || has_said(&pods.pods[0], "restored step"));
    pods_done(&pods);
    yaml_free(y);
    folder_remove();
}

/* ---- TFJob ----------------------------------------------------------------------------------- */

/* As the operator names them, and as it writes TF_CONFIG: types in small letters. */
static void tfjob_open(const struct yaml *y, const char *const *types, int type_count,
                       struct pods *ret)
{
    struct text cluster = {.at = NULL};

    *ret = (struct pods){.count = type_count};
    pods_ports(ret);
    for (int i = 0; i < type_count; i++) {
        char entry[64];

        snprintf(entry, sizeof(entry), "%s\"%s\":[\"127.0.0.1:%u\"]", i > 0 ? "," : "", types[i],
                 (unsigned)ret->ports[i]);
        text_add(&cluster, entry, strlen(entry));
    }
    for (int i = 0; i < type_count; i++) {
        char replica[32];
        char path[96];
        char config[512];

        snprintf(replica, sizeof(replica), "%s", types[i]);
        replica[0] = (char)(replica[0] - 'a' + 'A');
        snprintf(path, sizeof(path), "0.spec.tfReplicaSpecs.%s.template.spec.containers.0",
                 replica);
        snprintf(config, sizeof(config),
                 "{\"cluster\":{%.300s},\"task\":{\"type\":\"%s\",\"index\":0},"
                 "\"environment\":\"cloud\"}",
                 text_of(&cluster), types[i]);
        pod_words(&ret->pods[i], y, path);
        CHECK(ret->pods[i].word_count > 2);
        pod_variable(&ret->pods[i], "TUTTI_SECRET", SECRET);
        if (type_count > 1) /* of one replica it sets none */
            pod_variable(&ret->pods[i], "TF_CONFIG", config);
    }
    text_done(&cluster);
}

TEST(a_tfjob_is_what_its_operator_takes)
{
    struct yaml *y = read_manifest(KUBERNETES "--tfjob --worker 3 --ps 2 --chief --restarts 2 -- "
                                              "--model mlp --checkpoint /c");

    check_at(y, "0.apiVersion", "kubeflow.org/v1");
    check_at(y, "0.kind", "TFJob");
    check_at(y, "0.spec.runPolicy.backoffLimit", "12");
    check_at(y, "0.spec.tfReplicaSpecs.Chief.replicas", "1");
    check_at(y, "0.spec.tfReplicaSpecs.Worker.replicas", "3");
    check_at(y, "0.spec.tfReplicaSpecs.PS.replicas", "2");
    check_at(y, "0.spec.tfReplicaSpecs.PS.restartPolicy", "OnFailure");
    check_at(y, "0.spec.tfReplicaSpecs.PS.template.spec.containers.0.name", "tensorflow");
    check_at(y, "0.spec.tfReplicaSpecs.PS.template.spec.containers.0.ports.0.name", "tfjob-port");
    check_at(y, "0.spec.tfReplicaSpecs.PS.template.spec.containers.0.ports.0.containerPort",
             "2222");
    CHECK(yaml_at(y, "0.spec.tfReplicaSpecs.Evaluator.replicas") == NULL);
    check_at(y, "0.spec.tfReplicaSpecs.Worker.template.spec.containers.0.args.13", "143");
    yaml_free(y);
}

static void play_tfjob(const char *options, const char *const *types, int type_count)
{
    char command[512];
    struct yaml *y;
    struct pods pods;

    snprintf(command, sizeof(command), KUBERNETES "--tfjob %s -- " SHORT, options);
    y = read_manifest(command);
    tfjob_open(y, types, type_count, &pods);
    pods_start(&pods);
    pods_wait(&pods, 0, 0);
    check_trained(&pods, 100);
    pods_done(&pods);
    yaml_free(y);
}

TEST(replicas_of_a_tfjob_train)
{
    play_tfjob("--worker 1 --chief", (const char *const[]){"chief", "worker"}, 2);
    play_tfjob("--worker 1", (const char *const[]){"worker"}, 1);
}

/* ---- Slurm ----------------------------------------------------------------------------------- */

/* Runs a batch script with stand-ins for Slurm's commands. */
static struct seen batch(const char *strike, int restarts)
{
    char command[1024];
    uint16_t port = test_free_port(test_seed + (uint64_t)pods_now_ms());

    snprintf(command, sizeof(command),
             "export PATH=" STAND_INS ":" TUTTI_BINARY_DIR ":$PATH ASAN_OPTIONS=detect_leaks=0 "
             "REQUEUED=%s/requeued SLURM_JOB_ID=%d; %s%s%s export SLURM_RESTART_COUNT=%d; exec "
             "timeout -k 5 120 sbatch %s/batch",
             folder, port % 10000, strike != NULL ? "export STRIKE='" : "",
             strike != NULL ? strike : "", strike != NULL ? "';" : "", restarts, folder);
    return run(command);
}

static void write_batch(const char *options)
{
    char command[1024];
    struct seen seen;

    snprintf(command, sizeof(command),
             TUTTI "launch slurm %s --save-every 100 --checkpoint %s/c >%s/batch && bash -n "
                   "%s/batch",
             options, folder, folder, folder);
    seen = run(command);
    if (seen.exit != 0 || seen.err.bytes > 0)
        TEST_FAIL("%s: exit %d: %s", command, seen.exit, text_of(&seen.err));
    seen_done(&seen);
}

static void check_batch(struct seen seen, int exit, const char *out, const char *err)
{
    if (seen.exit != exit || strstr(text_of(&seen.out), out) == NULL ||
        strstr(text_of(&seen.err), err) == NULL)
        TEST_FAIL("exit %d, expected %d and ...%s... and ...%s...; it said\n%s", seen.exit, exit,
                  out, err, text_of(&seen.err));
    seen_done(&seen);
}

/* How often the job has been queued again. */
static int64_t requeues(void)
{
    char command[128];
    struct seen seen;
    int64_t count;

    snprintf(command, sizeof(command), "cat %s/requeued 2>/dev/null | wc -l", folder);
    seen = run(command);
    count = strtol(text_of(&seen.out), NULL, 10);
    seen_done(&seen);
    return count;
}

/* Its time is up before it has ended; queued again, it goes on. */
TEST(a_batch_script_trains_saves_and_goes_on)
{
    char strike[64];

    REQUIRE(folder_make());
    write_batch("--nodes 2 --restarts 1 -- " LONG);
    snprintf(strike, sizeof(strike), "TERM %s/c", folder);
    check_batch(batch(strike, 0), 42, "{\"stopped\":", "ended with 42: queued again");
    CHECK_INT(requeues(), 1);
    check_batch(batch(NULL, 1), 0, "{\"final\":{\"steps\":450,", "restored step");
    CHECK_INT(requeues(), 1);
    folder_remove();
}

/* A TF_CONFIG says who is what; a task is killed, once more than is allowed. */
TEST(a_batch_script_gives_tasks_their_types)
{
    char strike[64];

    REQUIRE(folder_make());
    write_batch("--worker 1 --chief --evaluator --restarts 1 -- " LONG);
    snprintf(strike, sizeof(strike), "KILL %s/c", folder);
    check_batch(batch(strike, 1), 128 + SIGKILL, "{\"final\":{", "was queued again 1 times");
    CHECK_INT(requeues(), 0);
    folder_remove();
    REQUIRE(folder_make());
    write_batch("--nodes 2 --worker 2 --chief -- " SHORT);
    check_batch(batch(NULL, 0), 0, "{\"final\":{\"steps\":100,", "");
    CHECK_INT(requeues(), 0);
    folder_remove();
}
