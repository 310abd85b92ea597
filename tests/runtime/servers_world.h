/* Processes of a training by parameter servers that a test forks, kills and starts again, and what
 * they have seen, in memory that they share with it. */
#ifndef TUTTI_TESTS_RUNTIME_SERVERS_WORLD_H
#define TUTTI_TESTS_RUNTIME_SERVERS_WORLD_H

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/model.h"
#include "runtime/random.h"
#include "runtime/servers.h"
#include "runtime/status.h"
#include "runtime/train/dataset.h"
#include "tests/runtime/ports.h"
#include "tests/test.h"

enum { CAST_MAX = 8, CAST_TOLD_MAX = 1 << 16, CAST_WEIGHTS_MAX = 16, CAST_NOTES_BYTES = 2048 };

/* A process. */
struct actor {
    enum tutti_servers_role role;
    uint32_t index;
    pid_t pid; /* 0: none, or waited for */
    int ended; /* as waitpid has it */
    int status;
    char text[TUTTI_ERR_TEXT_BYTES];
    char notes[CAST_NOTES_BYTES];
    atomic_int wanted; /* what its watch is to say next, where play.watches */
    struct tutti_servers_result result;
    uint64_t by_worker[CAST_MAX];
};

/* All of it; of the chief what it was told. */
struct cast {
    struct actor actor[CAST_MAX];
    atomic_uint told_count;
    struct tutti_servers_told told[CAST_TOLD_MAX];
    atomic_ullong step; /* that the chief was last told of */
    uint64_t weights_step;
    float weights[CAST_WEIGHTS_MAX]; /* at the beginning of all */
    atomic_uint starts;              /* times that the chief had weights */
    uint64_t start_step[64];
};

/* What is trained, of all of them. */
struct play {
    const char *model; /* of tutti_model_new; NULL: linear-regression */
    uint64_t batch;
    /* By worker: a batch takes so much longer, by half to half as much again; 0: not. */
    uint32_t slow_us[CAST_MAX];
    uint32_t slow_init_us; /* first values take so long */
    bool watches;
    struct tutti_servers_params params;
    char addresses[CAST_MAX][64];
    const char *servers[CAST_MAX];
    char folder[64];
};

static struct cast *cast;
static struct play play;
__attribute__((unused)) static struct actor *cast_self; /* of a child */

__attribute__((unused)) static double cast_now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

__attribute__((unused)) static void cast_pause_us(uint32_t us)
{
    const struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};

    (void)nanosleep(&time, NULL);
}

/* ---- in a child ------------------------------------------------------------------------------ */

static int cast_told(void *context, const struct tutti_servers_told *told, struct tutti_err *err)
{
    const uint32_t at = atomic_load(&cast->told_count);

    (void)context;
    (void)err;
    if (at < CAST_TOLD_MAX) {
        cast->told[at] = *told;
        atomic_store(&cast->told_count, at + 1);
    }
    atomic_store(&cast->step, told->step);
    return 0;
}

static int cast_weights(void *context, uint64_t step, const float *weights, struct tutti_err *err)
{
    const uint32_t at = atomic_load(&cast->starts);

    (void)context;
    (void)err;
    cast->weights_step = step;
    for (uint32_t i = 0; i < CAST_WEIGHTS_MAX && weights != NULL; i++)
        cast->weights[i] = i < 2 || play.model != NULL ? weights[i] : 0;
    if (at < 64)
        cast->start_step[at] = step;
    atomic_store(&cast->starts, at + 1);
    return 0;
}

static void cast_note(void *context, const char *line)
{
    size_t used = strlen(cast_self->notes);

    (void)context;
    (void)snprintf(cast_self->notes + used, sizeof(cast_self->notes) - used, "%s\n", line);
}

/* The model's own, somewhat later. */
static struct tutti_learner cast_learner;

static int cast_input(void *replica, uint64_t step, uint32_t micro_batch, double scale,
                      struct tutti_err *err)
{
    const uint32_t slow_us = play.slow_us[cast_self->index];

    if (slow_us > 0)
        cast_pause_us(
            slow_us / 2 +
            (uint32_t)(tutti_random_hash(test_seed, step, cast_self->index, 0) % slow_us));
    return cast_learner.input(replica, step, micro_batch, scale, err);
}

static int cast_init(void *replica, uint64_t seed, uint32_t layer, float *const *weights,
                     struct tutti_err *err)
{
    if (layer == 0)
        cast_pause_us(play.slow_init_us);
    return cast_learner.init(replica, seed, layer, weights, err);
}

static int cast_watch(void *context)
{
    (void)context;
    return atomic_exchange(&cast_self->wanted, 0);
}

static int cast_train(struct actor *self, struct tutti_err *err)
{
    struct tutti_servers_params params = play.params;
    struct tutti_net_learner_params data = {.size = sizeof(data),
                                            .global_batch = play.batch,
                                            .rank_count = 1,
                                            .seed = play.params.seed};
    struct tutti_net_learner_facts facts = {0};
    struct tutti_learner learner = {0};
    struct tutti_workload *model = NULL;
    int status =
        tutti_model_new(play.model != NULL ? play.model : "linear-regression", NULL, &model, err);

    data.model = model;
    if (status == 0)
        status = tutti_net_learner_new(&data, &cast_learner, &facts, err);
    learner = cast_learner;
    learner.input = cast_input;
    learner.init = cast_init;
    params.role = self->role;
    params.index = self->index;
    params.model = model;
    params.learner = &learner;
    params.epoch_steps = facts.epoch_steps;
    params.told = cast_told;
    params.weights = cast_weights;
    params.note = cast_note;
    params.watch = play.watches ? cast_watch : NULL;
    self->result.by_worker = self->by_worker;
    if (status == 0)
        status = tutti_servers_train(&params, &self->result, err);
    tutti_net_learner_free(&cast_learner);
    tutti_model_free(model);
    return status;
}

/* ---- in the test ----------------------------------------------------------------------------- */

/* So many servers at ports of their own, and a run of `steps` by plain SGD. */
__attribute__((unused)) static void cast_new(uint32_t servers, uint32_t workers, uint64_t steps)
{
    static uint32_t runs;

    if (cast == NULL)
        cast = mmap(NULL, sizeof(*cast), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (cast == MAP_FAILED)
        abort();
    memset(cast, 0, sizeof(*cast));
    play = (struct play){.batch = 8,
                         .params = {.size = sizeof(struct tutti_servers_params),
                                    .server_count = servers,
                                    .worker_count = workers,
                                    .steps = steps,
                                    .seed = 1,
                                    .deadline_ps = 20 * TUTTI_PS_PER_S}};
    if (tutti_update_named("sgd", &play.params.optimizer, NULL) < 0)
        abort();
    play.params.optimizer.rate = 0.1;
    for (uint32_t i = 0; i < servers; i++) {
        (void)snprintf(play.addresses[i], sizeof(play.addresses[i]), "127.0.0.1:%u",
                       test_free_port(test_seed + 100 * runs++));
        play.servers[i] = play.addresses[i];
    }
    play.params.servers = play.servers;
}

__attribute__((unused)) static struct actor *cast_start(enum tutti_servers_role role,
                                                        uint32_t index)
{
    struct actor *self = cast->actor;
    const pid_t parent = getpid();
    pid_t child;

    while (self->role != 0 && (self->role != role || self->index != index))
        self++;
    *self = (struct actor){.role = role, .index = index, .status = 1};
    (void)fflush(NULL);
    child = fork();
    if (child == 0) {
        struct tutti_err err = {.text = ""};

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        cast_self = self;
        self->status = cast_train(self, &err);
        (void)snprintf(self->text, sizeof(self->text), "%s", err.text);
        _exit(0);
    }
    self->pid = child;
    return self;
}

/* All servers and workers, and the chief where it is one of its own. */
__attribute__((unused)) static void cast_start_all(void)
{
    for (uint32_t i = 0; i < play.params.server_count; i++)
        (void)cast_start(TUTTI_SERVERS_SERVER, i);
    if (play.params.has_chief)
        (void)cast_start(TUTTI_SERVERS_CHIEF, 0);
    for (uint32_t i = 0; i < play.params.worker_count; i++)
        (void)cast_start(TUTTI_SERVERS_WORKER, i);
}

/* False: it has not ended within the time, and is killed. */
__attribute__((unused)) static bool cast_reap(struct actor *actor, double wait_s)
{
    const double due_s = cast_now_s() + wait_s;
    bool in_time = true;

    while (actor->pid > 0 && waitpid(actor->pid, &actor->ended, WNOHANG) == 0) {
        if (cast_now_s() > due_s && in_time) {
            in_time = false;
            (void)kill(actor->pid, SIGKILL);
        }
        cast_pause_us(1000);
    }
    actor->pid = 0;
    return in_time;
}

__attribute__((unused)) static void cast_kill(struct actor *actor)
{
    (void)kill(actor->pid, SIGKILL);
    (void)cast_reap(actor, 5);
}

/* All have ended well, or what they said is shown. */
__attribute__((unused)) static void cast_end(double wait_s)
{
    const double due_s = cast_now_s() + wait_s;

    for (struct actor *a = cast->actor; a < cast->actor + CAST_MAX && a->role != 0; a++) {
        const double left_s = due_s - cast_now_s();

        if (a->pid == 0)
            continue;
        if (!cast_reap(a, left_s > 0.01 ? left_s : 0.01))
            TEST_FAIL("role %d %u has not ended within %g s; notes: %s", (int)a->role, a->index,
                      wait_s, a->notes);
        else if (a->status != 0)
            TEST_FAIL("role %d %u: ended %x, status %d: %s; notes: %s", (int)a->role, a->index,
                      (unsigned)a->ended, a->status, a->text, a->notes);
    }
}

/* Until the chief has been told of a step; false: it was not within the time. */
__attribute__((unused)) static bool cast_wait_step(uint64_t step, double wait_s)
{
    const double due_s = cast_now_s() + wait_s;

    while (atomic_load(&cast->step) < step && cast_now_s() < due_s)
        cast_pause_us(500);
    return atomic_load(&cast->step) >= step;
}

/* Likewise: of some gradients of a worker. */
__attribute__((unused)) static bool cast_wait_worker(uint32_t worker, double wait_s)
{
    const double due_s = cast_now_s() + wait_s;
    uint32_t seen = 0;
    uint32_t at = 0;

    while (seen < 3 && cast_now_s() < due_s) {
        while (at < atomic_load(&cast->told_count))
            seen += cast->told[at++].worker == worker;
        cast_pause_us(500);
    }
    return seen >= 3;
}

__attribute__((unused)) static void cast_make_folder(void)
{
    (void)snprintf(play.folder, sizeof(play.folder), "/tmp/tutti-servers-XXXXXX");
    if (mkdtemp(play.folder) == NULL)
        abort();
    play.params.checkpoint = play.folder;
}

__attribute__((unused)) static void cast_remove_folder(void)
{
    char line[128];

    (void)snprintf(line, sizeof(line), "rm -rf '%s'", play.folder);
    CHECK_INT(system(line), 0);
}

#endif
