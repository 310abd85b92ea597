/* What the stand-in for the driver's library knows of memory: whose each piece is, and which device
 * reaches it. All of it is this process's memory, so that a kernel could touch any; what a launch
 * is going to touch is therefore held against this before, as a GPU would while it plays. */
#ifndef TUTTI_TESTS_GPU_STANDIN_MEMORY_H
#define TUTTI_TESTS_GPU_STANDIN_MEMORY_H

#include <stdlib.h>

#include "tests/gpu/player_cpu.h"

enum { DEVICES_MAX = 64, NO_DEVICE = -1 };

/* TUTTI_STANDIN_PEERS */
enum { PEERS_NONE, PEERS_ALL, PEERS_IN_PAIRS, PEERS_CLAIMED };

static uint64_t setting(const char *name, uint64_t standard)
{
    const char *text = getenv(name);

    return text == NULL ? standard : strtoull(text, NULL, 0);
}

struct piece {
    uintptr_t begin;
    size_t bytes;
    int device;    /* whose it is; of the host's: who asked for it */
    bool of_host;  /* pinned */
    bool portable; /* the host's, for all devices */
    struct piece *next;
};

struct memory {
    pthread_mutex_t lock; /* of the rest */
    struct piece *first;
    bool reaches[DEVICES_MAX][DEVICES_MAX]; /* peer access has been switched on */
};

static struct memory *memory(void)
{
    static struct memory only = {.lock = PTHREAD_MUTEX_INITIALIZER};

    return &only;
}

static bool memory_can_reach(int from, int to)
{
    uint64_t peers = setting("TUTTI_STANDIN_PEERS", PEERS_ALL);

    return from != to && (peers == PEERS_ALL || peers == PEERS_CLAIMED ||
                          (peers == PEERS_IN_PAIRS && from / 2 == to / 2));
}

/* Takes over `piece`; false: there is no memory. */
static bool memory_add(const void *at, struct piece piece)
{
    struct memory *all = memory();
    struct piece *made = malloc(sizeof(*made));

    if (made == NULL)
        return false;
    *made = piece;
    made->begin = (uintptr_t)at;
    (void)pthread_mutex_lock(&all->lock);
    made->next = all->first;
    all->first = made;
    (void)pthread_mutex_unlock(&all->lock);
    return true;
}

static void memory_remove(const void *at)
{
    struct memory *all = memory();
    struct piece **link = &all->first;
    struct piece *found;

    (void)pthread_mutex_lock(&all->lock);
    while (*link != NULL && (*link)->begin != (uintptr_t)at)
        link = &(*link)->next;
    found = *link;
    if (found != NULL)
        *link = found->next;
    (void)pthread_mutex_unlock(&all->lock);
    free(found);
}

/* 704: it already does. */
static int memory_reach(int from, int to)
{
    struct memory *all = memory();
    bool already;

    (void)pthread_mutex_lock(&all->lock);
    already = all->reaches[from][to];
    all->reaches[from][to] = true;
    (void)pthread_mutex_unlock(&all->lock);
    return already ? 704 : 0;
}

/* The device's context is gone. */
static void memory_forget(int device)
{
    struct memory *all = memory();

    (void)pthread_mutex_lock(&all->lock);
    for (int other = 0; other < DEVICES_MAX; other++)
        all->reaches[device][other] = all->reaches[other][device] = false;
    (void)pthread_mutex_unlock(&all->lock);
}

static bool memory_is_legal(int device, uint64_t at, uint64_t bytes)
{
    bool lies = setting("TUTTI_STANDIN_PEERS", PEERS_ALL) == PEERS_CLAIMED;
    struct memory *all = memory();
    bool legal = bytes == 0;

    (void)pthread_mutex_lock(&all->lock);
    for (const struct piece *p = all->first; p != NULL && !legal; p = p->next) {
        if (at < p->begin || at - p->begin > p->bytes || bytes > p->bytes - (at - p->begin))
            continue;
        legal = p->device == device || (p->of_host && p->portable) ||
                (!p->of_host && !lies && all->reaches[device][p->device]);
    }
    (void)pthread_mutex_unlock(&all->lock);
    return legal;
}

/* ---- what a launch touches ---- */

struct looking {
    const struct tutti_cuda_args *args;
    int device;
    bool legal; /* so far */
};

static void look_at(struct looking *looking, const void *at, uint64_t bytes)
{
    if (at != NULL)
        looking->legal = looking->legal && memory_is_legal(looking->device, (uintptr_t)at, bytes);
}

static void look_at_flag(struct looking *looking, const struct tutti_cuda_flag *flag)
{
    look_at(looking, player_counter(looking->args, flag->counter), sizeof(uint64_t));
}

static void look_at_place(struct looking *looking, uint64_t at, uint64_t bytes, bool line)
{
    uint64_t lines = bytes > 8 ? (bytes + 7) / 8 : 1;

    looking->legal =
        looking->legal && memory_is_legal(looking->device, at, line ? lines * 16 : bytes);
}

static void look_at_op(struct looking *looking, const struct tutti_cuda_op *op)
{
    const struct tutti_cuda_args *args = looking->args;

    for (uint32_t s = 0; s < op->src_count; s++)
        look_at_place(looking, op->src[s], op->bytes, op->lines >> s & 1);
    for (uint32_t d = 0; d < op->dst_count; d++)
        look_at_place(looking, op->dst[d], op->bytes, op->lines >> (16 + d) & 1);
    for (uint32_t w = 0; w < op->wait_count; w++)
        look_at_flag(looking, op->flagged ? &op->flags[w] : &args->waits[op->wait_first + w]);
    for (uint32_t i = 0; i < op->signal_count; i++)
        look_at_flag(looking, op->flagged ? &op->flags[op->wait_count + i]
                                          : &args->signals[op->signal_first + i]);
}

/* Whether the device reaches all that the blocks are going to touch. */
static bool memory_launch_is_legal(const struct tutti_cuda_args *args, uint32_t blocks, int device)
{
    struct looking looking = {.args = args, .device = device, .legal = true};

    look_at(&looking, args->lanes, blocks * sizeof(args->lanes[0]));
    look_at(&looking, args->meeting, sizeof(*args->meeting));
    look_at(&looking, args->verdicts, blocks * sizeof(args->verdicts[0]));
    look_at(&looking, args->stop, sizeof(*args->stop));
    look_at(&looking, args->abort, sizeof(*args->abort));
    look_at(&looking, args->requests,
            args->requests == NULL ? 0 : blocks * sizeof(args->requests[0]));
    if (args->iteration_count > 1 || args->gpu_count > 1)
        look_at(&looking, args->meetings_ns,
                (args->iteration_count > 1 ? args->iteration_count + UINT64_C(1) : 1) *
                    sizeof(args->meetings_ns[0]));
    if (args->gpu_count > 1)
        look_at(&looking, args->gates, args->gpu_count * sizeof(args->gates[0]));
    for (uint32_t b = 0; b < blocks && looking.legal; b++) {
        const struct tutti_cuda_lane *lane = &args->lanes[b];

        look_at(&looking, args->ops + lane->op_first, lane->op_count * sizeof(args->ops[0]));
        if (args->stamps != NULL)
            look_at(&looking, args->stamps + lane->op_first,
                    lane->op_count * sizeof(args->stamps[0]));
        for (uint32_t i = 0; i < lane->op_count && looking.legal; i++)
            look_at_op(&looking, &args->ops[lane->op_first + i]);
    }
    return looking.legal;
}

#endif
