/* Event queues on the events of real plays: what was put and taken is taken down once, by the clock
 * on an idle data-less play, and then played back to every candidate (queue_candidates.c).
 *
 *     queue_bench     nanoseconds of CPU a put and its pop, best of three
 *
 * All candidates must take things out in the same order: by time, of equal times the first put. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/coll.h"
#include "runtime/status.h"
#include "sim/play/clocked.h"
#include "sim/queue/queue.h"
#include "sim/sim.h"
#include "tests/bench/queue_candidates.h"
#include "topo/topo.h"

enum { OPS_MAX = 4000000, TURNS = 3 };

enum kind { PUT, POP, DROP };

struct op {
    tutti_ps at_ps;
    uint32_t id;
    uint32_t kind; /* POP: id is what came out */
};

static struct {
    const struct tutti_queue *queue; /* whose operations are taken down */
    struct op *ops;
    uint64_t count;
    uint64_t most; /* in the queue */
    uint32_t id_max;
} tape;

void __real_tutti_queue_put(struct tutti_queue *queue, uint32_t id, tutti_ps at_ps);
void __real_tutti_queue_drop(struct tutti_queue *queue, uint32_t id);
uint32_t __real_tutti_queue_pop(struct tutti_queue *queue);
void __real_tutti_queue_clear(struct tutti_queue *queue);
void __wrap_tutti_queue_put(struct tutti_queue *queue, uint32_t id, tutti_ps at_ps);
void __wrap_tutti_queue_drop(struct tutti_queue *queue, uint32_t id);
uint32_t __wrap_tutti_queue_pop(struct tutti_queue *queue);
void __wrap_tutti_queue_clear(struct tutti_queue *queue);

static void take_down(const struct tutti_queue *queue, enum kind kind, uint32_t id, tutti_ps at_ps)
{
    if (tape.ops == NULL || tape.count == OPS_MAX)
        return;
    if (tape.queue == NULL)
        tape.queue = queue;
    if (tape.queue != queue)
        return;
    tape.ops[tape.count++] = (struct op){at_ps, id, kind};
    tape.id_max = id > tape.id_max ? id : tape.id_max;
    tape.most = queue->count > tape.most ? queue->count : tape.most;
}

void __wrap_tutti_queue_put(struct tutti_queue *queue, uint32_t id, tutti_ps at_ps)
{
    take_down(queue, PUT, id, at_ps);
    __real_tutti_queue_put(queue, id, at_ps);
}

void __wrap_tutti_queue_drop(struct tutti_queue *queue, uint32_t id)
{
    take_down(queue, DROP, id, 0);
    __real_tutti_queue_drop(queue, id);
}

uint32_t __wrap_tutti_queue_pop(struct tutti_queue *queue)
{
    uint32_t id = __real_tutti_queue_pop(queue);

    take_down(queue, POP, id, queue->nodes[id].at_ps);
    return id;
}

/* A play begins, perhaps anew. */
void __wrap_tutti_queue_clear(struct tutti_queue *queue)
{
    tape.count = tape.most = tape.id_max = 0;
    tape.queue = NULL;
    __real_tutti_queue_clear(queue);
}

struct stream {
    const char *name;
    const char *spec;
    const char *algorithm;
    enum tutti_model model;
    double jitter;
};

static const struct stream streams[] = {
    {"torus", "torus:16x16x16", "torus", TUTTI_MODEL_ALPHABETA, 0},
    {"torus, jitter 0.2", "torus:16x16x16", "torus", TUTTI_MODEL_ALPHABETA, 0.2},
    {"two trees", "switch:n=512", "double-binary-tree", TUTTI_MODEL_ALPHABETA, 0},
    {"two trees, jitter 0.2", "switch:n=512", "double-binary-tree", TUTTI_MODEL_ALPHABETA, 0.2},
    {"two trees, fair", "switch:n=64", "double-binary-tree", TUTTI_MODEL_FAIR, 0},
};

/* Plays a stream by the clock, whatever else might suit it. */
static int take_down_stream(const struct stream *stream, struct tutti_err *err)
{
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts),
                                  .model = stream->model,
                                  .jitter = stream->jitter,
                                  .seed = 1};
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = UINT64_C(1) << 28};
    struct tutti_schedule *schedule = NULL;
    struct tutti_clocked *clocked = NULL;
    struct tutti_topo *topo = NULL;
    uint64_t step_count;
    tutti_ps end_ps;
    int status = tutti_topo_from_spec(stream->spec, &topo, err);

    if (status == 0)
        status = tutti_coll_generate(stream->algorithm, &params, &topo->shape, &schedule, err);
    opts.topo = topo;
    if (status == 0)
        status = tutti_clocked_new(&opts, schedule, &clocked, err);
    if (status == 0)
        status = tutti_clocked_play(clocked, 1, 0, NULL, &end_ps, &step_count, err);
    tutti_clocked_free(clocked);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
    return status;
}

/* CPU nanoseconds of playing the tape to a queue; -1: it took something else out. */
static double play_back(const struct candidate *candidate)
{
    void *queue = candidate->open(tape.id_max + 1);
    struct timespec begin;
    struct timespec end;
    bool same = true;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (uint64_t i = 0; i < tape.count; i++) {
        const struct op *op = &tape.ops[i];

        if (op->kind == PUT)
            candidate->put(queue, op->id, op->at_ps);
        else if (op->kind == POP)
            same &= candidate->pop(queue) == op->id;
        else
            candidate->drop(queue, op->id);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    candidate->close(queue);
    return same ? (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)
                : -1;
}

static void print_times(const struct stream *stream)
{
    uint64_t pops = 0;

    for (uint64_t i = 0; i < tape.count; i++)
        pops += tape.ops[i].kind == POP;
    printf("%-22s %8llu %9llu", stream->name, (unsigned long long)tape.most,
           (unsigned long long)tape.count);
    for (const struct candidate *c = queue_candidates; c->name != NULL; c++) {
        double best = -1;

        for (int turn = 0; turn < TURNS; turn++) {
            double ns = play_back(c);

            best = best < 0 || ns < best ? ns : best;
        }
        if (best < 0)
            printf(" %9s", "wrong");
        else
            printf(" %9.1f", best / (double)pops);
        fflush(stdout);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    struct tutti_err err = {.text = ""};

    (void)argv;
    if (argc > 1) {
        fprintf(stderr, "usage: queue_bench\n");
        return 2;
    }
    tape.ops = malloc(OPS_MAX * sizeof(*tape.ops));
    if (tape.ops == NULL)
        return 1;
    printf("%-22s %8s %9s", "events of", "queued", "ops");
    for (const struct candidate *c = queue_candidates; c->name != NULL; c++)
        printf(" %9s", c->name);
    printf("\n");
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        if (take_down_stream(&streams[i], &err) < 0) {
            fprintf(stderr, "queue_bench: %s\n", err.text);
            return 1;
        }
        print_times(&streams[i]);
    }
    free(tape.ops);
    return 0;
}
