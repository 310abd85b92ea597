/* NCCL's search for channels (2.28.9 search.cc ncclTopoSearchRec and below), step for step, so that
 * it ends where NCCL's ends when it runs out of budget. NCCL recurses; here a level of the stack
 * holds what a call of NCCL's would: what it tries next, and what it took for the last try. */
#include "sim/nccl/walk.h"

#include <assert.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "sim/nccl/next.h"
#include "sim/nccl/reserve.h"

enum { PCI_ORDER_BUDGET = 1 << 10, NOWHERE = -1 };

enum order { ORDER_FREE, ORDER_PCI, ORDER_REPLAY };

enum what {
    WHAT_START,   /* where a channel starts within a node */
    WHAT_PORT,    /* at which port and GPU it starts */
    WHAT_LEAVE,   /* by which port it leaves */
    WHAT_NEXT,    /* to which GPU it goes */
    WHAT_CLOSE,   /* back to the first GPU */
    WHAT_SWITCH,  /* NVLS: all GPUs to the switches and back */
    WHAT_FAN,     /* CollNet: the head to all others and back */
    WHAT_FINISH,  /* nothing more to take: one step of NCCL's */
    WHAT_CHANNEL, /* a channel is complete */
};

struct tutti_nccl_level {
    uint8_t what;  /* enum what */
    uint8_t order; /* enum order */
    bool taken;    /* the last try still holds what it took */
    bool apart;    /* the last try had a budget of its own; NCCL's is kept in `budget` */
    bool found;    /* WHAT_PORT with NVLS: one port is enough */
    int32_t step, to_net, to_first; /* steps at which to leave, to close; NOWHERE */
    uint32_t gpu;
    uint32_t next, count; /* tries */
    uint32_t port_next;   /* WHAT_PORT: the port after the one at hand */
    uint32_t port;
    int64_t budget;
    struct tutti_nccl_end from, to;
    uint32_t numerator, denominator;
    bool enters; /* the last try put GPU `to` on the channel */
};

static uint32_t gpu_count(const struct tutti_nccl_walk *w)
{
    return w->system->counts[TUTTI_NCCL_GPU];
}

static uint32_t net_count(const struct tutti_nccl_walk *w)
{
    return w->system->counts[TUTTI_NCCL_NET];
}

static struct tutti_nccl_end end(enum tutti_nccl_kind kind, uint32_t place)
{
    return (struct tutti_nccl_end){.kind = kind, .place = place};
}

static uint64_t channel_bit(const struct tutti_nccl_walk *w)
{
    return UINT64_C(1) << w->now.channel_count;
}

/* GPU number `step` of the last channel. */
static uint32_t replayed(const struct tutti_nccl_walk *w, uint32_t step)
{
    assert(w->now.channel_count > 0);
    return w->now.gpus[(w->now.channel_count - 1) * gpu_count(w) + step];
}

static struct tutti_nccl_level *push(struct tutti_nccl_walk *w, enum what what)
{
    struct tutti_nccl_level *level = &w->levels[w->depth++];

    assert(w->depth <= w->depth_max);
    *level = (struct tutti_nccl_level){.what = (uint8_t)what, .count = 1};
    return level;
}

static void push_channel(struct tutti_nccl_walk *w)
{
    struct tutti_nccl_level *level = push(w, net_count(w) > 0 ? WHAT_PORT : WHAT_START);
    uint8_t pattern = w->now.pattern;
    int32_t last = (int32_t)gpu_count(w) - 1;

    level->count = 0; /* of the port at hand: none yet */
    level->to_net = level->to_first = NOWHERE;
    if (net_count(w) > 0)
        level->to_net = pattern == TUTTI_PATTERN_RING ? last : pattern == TUTTI_PATTERN_SPLIT_TREE;
    else if (pattern == TUTTI_PATTERN_RING)
        level->to_first = last;
    if (level->what == WHAT_PORT)
        return;
    level->count = 1;
    if (pattern != TUTTI_PATTERN_NVLS && (!w->now.same_channels || w->now.channel_count == 0))
        level->count += gpu_count(w);
}

/* A call of ncclTopoSearchRecGpu: false where the budget is spent. */
static bool push_gpu(struct tutti_nccl_walk *w, const struct tutti_nccl_level *caller, uint32_t gpu,
                     int32_t step, int32_t to_net, int32_t to_first)
{
    int32_t count = (int32_t)gpu_count(w);
    uint8_t order = caller->order;
    struct tutti_nccl_level *level;

    if (w->budget <= 0)
        return false;
    w->budget--;
    w->steps_taken++;
    level = push(w, WHAT_CHANNEL);
    level->order = order;
    level->gpu = gpu;
    level->step = step;
    level->to_net = to_net;
    level->to_first = to_first;
    if (step == count)
        return true;
    w->now.gpus[w->now.channel_count * gpu_count(w) + (uint32_t)step] = gpu;
    if (step == to_net) {
        level->what = WHAT_LEAVE;
        level->count = tutti_nccl_net_list(w, gpu, NULL);
    } else if (w->now.pattern == TUTTI_PATTERN_NVLS) {
        level->what = WHAT_SWITCH;
    } else if (w->now.pattern == TUTTI_PATTERN_COLLNET_DIRECT) {
        level->what = WHAT_FAN;
    } else if (step < count - 1) {
        level->what = WHAT_NEXT;
        level->count = order == ORDER_FREE ? tutti_nccl_next_gpus(w, gpu, step, to_net) : 1;
    } else {
        level->what = step == to_first ? WHAT_CLOSE : WHAT_FINISH;
    }
    return true;
}

/* ---- tries --------------------------------------------------------------------------------- */

/* Takes the way and puts the GPU on the channel, as its number `step`. A NULL way is free. */
static bool enter(struct tutti_nccl_walk *w, struct tutti_nccl_level *level,
                  const struct tutti_nccl_end *from, uint32_t gpu, int32_t step)
{
    if (from != NULL && !tutti_nccl_reserve(w, *from, end(TUTTI_NCCL_GPU, gpu), 1, 1))
        return false;
    level->taken = true;
    level->enters = true;
    level->to = end(TUTTI_NCCL_GPU, gpu);
    level->numerator = from != NULL;
    level->denominator = 1;
    if (from != NULL)
        level->from = *from;
    w->used[gpu] ^= channel_bit(w);
    return push_gpu(w, level, gpu, step, level->to_net, level->to_first);
}

static bool try_start(struct tutti_nccl_walk *w, struct tutti_nccl_level *level)
{
    uint32_t number = level->next++;
    uint32_t gpu = number - 1;

    level->order = ORDER_FREE;
    if (w->now.pattern == TUTTI_PATTERN_NVLS) {
        gpu = w->now.channel_count;
    } else if (number == 0) {
        level->order = w->now.channel_count == 0 ? ORDER_PCI : ORDER_REPLAY;
        gpu = w->now.channel_count == 0 ? 0 : replayed(w, 0);
    }
    return enter(w, level, NULL, gpu, 0);
}

/* Goes from GPU to GPU. */
static bool try_next(struct tutti_nccl_walk *w, struct tutti_nccl_level *level)
{
    uint32_t number = level->next++;
    struct tutti_nccl_end from = end(TUTTI_NCCL_GPU, level->gpu);
    uint32_t gpu = level->order == ORDER_PCI ? (uint32_t)level->step + 1
                   : level->order == ORDER_REPLAY
                       ? replayed(w, (uint32_t)level->step + 1)
                       : w->lists[(size_t)(level - w->levels) * w->list_width + number];

    return enter(w, level, &from, gpu, level->step + 1);
}

static bool may_leave_by(const struct tutti_nccl_walk *w, const struct tutti_nccl_level *level,
                         uint32_t net)
{
    const uint32_t *nets = &w->now.nets[2 * (size_t)w->now.channel_count];
    uint8_t pattern = w->now.pattern;

    if (pattern == TUTTI_PATTERN_TREE && net != nets[0])
        return false;
    if (pattern == TUTTI_PATTERN_RING && w->now.cross_nic == 2) {
        /* Channels in pairs: the second leaves where the first came in. */
        if (w->now.channel_count % 2 == 1 && net != nets[-2])
            return false;
    } else if (w->now.cross_nic == 0 &&
               w->system->net_group[net] != w->system->net_group[nets[0]]) {
        return false;
    }
    return pattern != TUTTI_PATTERN_BALANCED_TREE || level->step == 0 || net == nets[1];
}

static bool try_leave(struct tutti_nccl_walk *w, struct tutti_nccl_level *level)
{
    const uint32_t *list;
    uint32_t net;
    bool balanced = w->now.pattern == TUTTI_PATTERN_BALANCED_TREE;

    tutti_nccl_net_list(w, level->gpu, &list);
    net = list[level->next++];
    if (!may_leave_by(w, level, net))
        return false;
    level->from = end(TUTTI_NCCL_GPU, level->gpu);
    level->to = end(TUTTI_NCCL_NET, net);
    level->numerator = 1;
    level->denominator = balanced ? 2 : 1; /* the first two GPUs carry half each */
    if (!tutti_nccl_reserve(w, level->from, level->to, 1, level->denominator))
        return false;
    level->taken = true;
    w->now.nets[2 * (size_t)w->now.channel_count + 1] = net;
    return push_gpu(w, level, level->gpu, level->step, balanced && level->step == 0 ? 1 : NOWHERE,
                    level->to_first);
}

static bool try_close(struct tutti_nccl_walk *w, struct tutti_nccl_level *level)
{
    uint32_t first = w->now.gpus[w->now.channel_count * gpu_count(w)];

    level->next++;
    level->from = end(TUTTI_NCCL_GPU, level->gpu);
    level->to = end(TUTTI_NCCL_GPU, first);
    level->numerator = level->denominator = 1;
    if (!tutti_nccl_reserve(w, level->from, level->to, 1, 1))
        return false;
    level->taken = true;
    return push_gpu(w, level, first, level->step + 1, level->to_net, NOWHERE);
}

/* Between a hub and the first `count` GPUs; with NVLS the head's own link carries it twice. */
static void give_spokes(struct tutti_nccl_walk *w, const struct tutti_nccl_level *level,
                        bool outward, uint32_t count)
{
    bool nvls = level->what == WHAT_SWITCH;
    struct tutti_nccl_end hub = nvls ? end(TUTTI_NCCL_NVS, 0) : end(TUTTI_NCCL_GPU, level->gpu);
    uint32_t denominator = nvls ? 1 : gpu_count(w) - 1;

    while (count-- > 0) {
        uint32_t numerator = nvls && count == level->gpu ? 2 : 1;

        if (outward)
            tutti_nccl_give(w, hub, end(TUTTI_NCCL_GPU, count), numerator, denominator);
        else
            tutti_nccl_give(w, end(TUTTI_NCCL_GPU, count), hub, numerator, denominator);
    }
}

static bool take_spokes(struct tutti_nccl_walk *w, const struct tutti_nccl_level *level,
                        bool outward)
{
    bool nvls = level->what == WHAT_SWITCH;
    struct tutti_nccl_end hub = nvls ? end(TUTTI_NCCL_NVS, 0) : end(TUTTI_NCCL_GPU, level->gpu);
    uint32_t denominator = nvls ? 1 : gpu_count(w) - 1;

    for (uint32_t g = 0; g < gpu_count(w); g++) {
        uint32_t numerator = nvls && g == level->gpu ? 2 : 1;
        struct tutti_nccl_end spoke = end(TUTTI_NCCL_GPU, g);

        if (tutti_nccl_reserve(w, outward ? hub : spoke, outward ? spoke : hub, numerator,
                               denominator))
            continue;
        give_spokes(w, level, outward, g);
        return false;
    }
    return true;
}

static bool try_spokes(struct tutti_nccl_walk *w, struct tutti_nccl_level *level)
{
    uint32_t *gpus = &w->now.gpus[w->now.channel_count * gpu_count(w)];

    level->next++;
    if (!take_spokes(w, level, true))
        return false;
    if (!take_spokes(w, level, false)) {
        give_spokes(w, level, true, gpu_count(w));
        return false;
    }
    level->taken = true;
    gpus++; /* after the head, which stands there already */
    for (uint32_t g = 0; g < gpu_count(w); g++)
        if (g != level->gpu)
            *gpus++ = g;
    return push_gpu(w, level, level->gpu, (int32_t)gpu_count(w), NOWHERE, NOWHERE);
}

/* More than what there is? (search.cc ncclTopoCompareGraphs) */
static bool is_better(const struct tutti_nccl_walk *w)
{
    const struct tutti_nccl_candidate *a = &w->now;
    const struct tutti_nccl_candidate *b = &w->best;
    int64_t rate_a = a->channel_count * a->intra_kbyte_per_s;
    int64_t rate_b = b->channel_count * b->intra_kbyte_per_s;

    if (a->channel_count < a->channels_min)
        return false;
    if (a->pattern == TUTTI_PATTERN_NVLS)
        return (a->channel_count > b->channel_count && a->channel_count <= gpu_count(w)) ||
               a->channel_count * a->inter_kbyte_per_s > b->channel_count * b->inter_kbyte_per_s;
    if (rate_a != rate_b)
        return rate_a > rate_b;
    return a->pattern == b->pattern && a->cross_nic == b->cross_nic && a->hop_count < b->hop_count;
}

static bool try_channel(struct tutti_nccl_walk *w, struct tutti_nccl_level *level)
{
    level->next++;
    level->taken = true;
    w->now.channel_count++;
    if (w->now.channel_count > w->limiting_factor.channels_tried)
        w->limiting_factor.channels_tried = w->now.channel_count;
    if (is_better(w)) {
        tutti_nccl_candidate_copy(w->system, &w->now, &w->best);
        w->improved = true;
        if (w->now.channel_count == w->now.channels_max)
            w->budget = TUTTI_WALK_PERFECT;
    }
    if (w->now.channel_count >= w->now.channels_max)
        return false;
    push_channel(w);
    return true;
}

/* ---- ports --------------------------------------------------------------------------------- */

/* NCCL takes whole GB/s from a port. */
static int64_t port_share(const struct tutti_nccl_walk *w)
{
    return w->now.inter_kbyte_per_s / 1000000 * 1000000;
}

/* What is left is kept with the first of the ports that share it. */
static void change_port(struct tutti_nccl_walk *w, uint32_t net, int64_t kbyte_per_s)
{
    w->net_left[w->system->net_group[net]] += kbyte_per_s;
}

static bool heads_only(const struct tutti_nccl_walk *w)
{
    return w->now.pattern == TUTTI_PATTERN_NVLS || w->now.pattern == TUTTI_PATTERN_COLLNET_DIRECT;
}

static bool may_start_at(const struct tutti_nccl_walk *w, uint32_t net)
{
    if (w->now.collnet && !tutti_nccl_net(w->system, net)->coll)
        return false;
    if (w->net_left[w->system->net_group[net]] < port_share(w))
        return false;
    return w->now.pattern != TUTTI_PATTERN_RING || w->now.cross_nic != 2 ||
           w->now.channel_count % 2 == 0 || net == w->now.nets[2 * w->now.channel_count - 1];
}

/* How many GPUs are tried at a port: see start_gpu(). */
static uint32_t start_count(const struct tutti_nccl_walk *w, uint32_t net, uint32_t list_count)
{
    int32_t local = w->system->net_gpu[net];

    if (!heads_only(w))
        return w->now.channel_count > 0 && w->now.same_channels ? 1 : 2 + w->near_count[net];
    if (w->now.channel_count >= list_count || local < 0)
        return 0;
    for (uint32_t c = 0; c < w->now.channel_count; c++)
        if (w->now.gpus[c * gpu_count(w)] == (uint32_t)local)
            return 0;
    return 1;
}

/* The next port that will do; false: there is none. */
static bool next_port(struct tutti_nccl_walk *w, struct tutti_nccl_level *level)
{
    const uint32_t *list;
    uint32_t count = tutti_nccl_net_list(w, gpu_count(w), &list);

    while (level->port_next < count && !(heads_only(w) && level->found)) {
        uint32_t net = list[(w->now.channel_count + level->port_next++) % count];

        if (!may_start_at(w, net))
            continue;
        w->now.nets[2 * w->now.channel_count] = net;
        w->now.latency_ns = tutti_nccl_net(w->system, net)->latency_ns;
        change_port(w, net, -port_share(w));
        level->port = net;
        level->next = 0;
        level->count = start_count(w, net, count);
        if (level->count > 0)
            return true;
        change_port(w, net, port_share(w));
    }
    return false;
}

/* The GPU for a try at the port: heads are its own GPU; else the last channel's first, or the first
 * GPU of all (in the order of PCI, with a small budget of its own), the port's own, and others as
 * near. false: the try is none. */
static bool start_gpu(struct tutti_nccl_walk *w, struct tutti_nccl_level *level, uint32_t *ret)
{
    int32_t local = w->system->net_gpu[level->port];
    uint32_t number = level->next++;

    level->order = ORDER_FREE;
    level->apart = false;
    if (heads_only(w)) {
        level->found = true;
        *ret = (uint32_t)local;
        return true;
    }
    if (level->count == 1) {
        level->order = ORDER_REPLAY;
        *ret = replayed(w, 0);
        return true;
    }
    if (number == 0) {
        level->order = ORDER_PCI;
        level->apart = true;
        *ret = 0;
        return w->now.channel_count == 0 && w->system->counts[TUTTI_NCCL_NVS] == 0;
    }
    if (number == 1) {
        *ret = (uint32_t)local;
        return local >= 0;
    }
    *ret = w->near_gpus[(size_t)level->port * gpu_count(w) + number - 2];
    return *ret != (uint32_t)local;
}

static bool try_port(struct tutti_nccl_walk *w, struct tutti_nccl_level *level)
{
    struct tutti_nccl_end from = end(TUTTI_NCCL_NET, level->port);
    uint32_t gpu = 0;
    bool entered;

    if (!start_gpu(w, level, &gpu)) {
        level->apart = false;
        return false;
    }
    if (level->apart) {
        level->budget = w->budget;
        w->budget = PCI_ORDER_BUDGET;
    }
    entered = enter(w, level, &from, gpu, 0);
    if (!entered && !level->taken && level->apart) {
        w->budget = level->budget;
        level->apart = false;
    }
    return entered;
}

/* ---- the stack ----------------------------------------------------------------------------- */

static void undo(struct tutti_nccl_walk *w, struct tutti_nccl_level *level)
{
    level->taken = false;
    if (level->what == WHAT_CHANNEL) {
        w->now.channel_count--;
    } else if (level->what == WHAT_SWITCH || level->what == WHAT_FAN) {
        give_spokes(w, level, false, gpu_count(w));
        give_spokes(w, level, true, gpu_count(w));
    } else if (level->what != WHAT_FINISH) {
        if (level->enters)
            w->used[level->to.place] ^= channel_bit(w);
        level->enters = false;
        if (level->numerator > 0)
            tutti_nccl_give(w, level->from, level->to, level->numerator, level->denominator);
    }
    if (level->apart) {
        w->budget = w->budget == TUTTI_WALK_PERFECT ? TUTTI_WALK_PERFECT : level->budget;
        level->apart = false;
    }
}

/* The next try of a level: true if it went on to a further level. */
static bool try_one(struct tutti_nccl_walk *w, struct tutti_nccl_level *level)
{
    switch ((enum what)level->what) {
    case WHAT_START:
        return try_start(w, level);
    case WHAT_PORT:
        return try_port(w, level);
    case WHAT_LEAVE:
        return try_leave(w, level);
    case WHAT_NEXT:
        return try_next(w, level);
    case WHAT_CLOSE:
        return try_close(w, level);
    case WHAT_SWITCH:
    case WHAT_FAN:
        return try_spokes(w, level);
    case WHAT_FINISH:
        level->next++;
        level->taken = true;
        return push_gpu(w, level, level->gpu, (int32_t)gpu_count(w), NOWHERE, NOWHERE);
    case WHAT_CHANNEL:
        return try_channel(w, level);
    }
    return false;
}

static bool has_more(struct tutti_nccl_walk *w, struct tutti_nccl_level *level)
{
    if (w->budget <= 0)
        return false; /* NCCL goes through the rest, too, but takes no step */
    if (level->next < level->count)
        return true;
    if (level->what != WHAT_PORT)
        return false;
    if (level->port_next > 0 && level->count > 0)
        change_port(w, level->port, port_share(w));
    level->count = 0;
    return next_port(w, level);
}

static void leave(struct tutti_nccl_walk *w, struct tutti_nccl_level *level)
{
    if (level->what == WHAT_PORT && level->count > 0)
        change_port(w, level->port, port_share(w));
    w->depth--;
}

int tutti_nccl_walk_run(struct tutti_nccl_walk *w)
{
    if (tutti_nccl_lists_make(w) < 0)
        return -TUTTI_ENOMEM;
    w->now.channel_count = 0;
    w->improved = false;
    w->limiting_factor = (struct tutti_nccl_limiting_factor){.type_intra = TUTTI_PATH_DIS,
                                                             .type_to_net = TUTTI_PATH_DIS,
                                                             .type_from_net = TUTTI_PATH_DIS};
    push_channel(w);
    while (w->depth > 0) {
        struct tutti_nccl_level *level = &w->levels[w->depth - 1];

        if (level->taken)
            undo(w, level);
        else if (has_more(w, level))
            try_one(w, level);
        else
            leave(w, level);
    }
    assert(w->now.channel_count == 0);
    return 0;
}

int tutti_nccl_walk_init(struct tutti_nccl_walk *walk, struct tutti_nccl_system *system,
                         const struct tutti_nccl_rules *rules, uint32_t channels_max,
                         struct tutti_arena *arena)
{
    uint32_t gpus = system->counts[TUTTI_NCCL_GPU];
    uint32_t nets = system->counts[TUTTI_NCCL_NET];

    *walk = (struct tutti_nccl_walk){.system = system, .rules = rules, .arena = arena};
    walk->depth_max = channels_max * (gpus + 6) + 2;
    walk->list_width = system->counts[TUTTI_NCCL_NVS] > 0 && gpus > 2 ? 2 : gpus;
    walk->used = tutti_arena_take(arena, gpus, sizeof(*walk->used));
    walk->net_left = tutti_arena_take(arena, nets, sizeof(*walk->net_left));
    walk->now.gpus = tutti_arena_take(arena, (size_t)channels_max * gpus, sizeof(uint32_t));
    walk->now.nets = tutti_arena_take(arena, (size_t)channels_max, 2 * sizeof(uint32_t));
    walk->best.gpus = tutti_arena_take(arena, (size_t)channels_max * gpus, sizeof(uint32_t));
    walk->best.nets = tutti_arena_take(arena, (size_t)channels_max, 2 * sizeof(uint32_t));
    walk->levels = tutti_arena_take(arena, walk->depth_max, sizeof(*walk->levels));
    walk->lists =
        tutti_arena_take(arena, (size_t)walk->depth_max * walk->list_width, sizeof(*walk->lists));
    if (walk->used == NULL || walk->net_left == NULL || walk->now.gpus == NULL ||
        walk->now.nets == NULL || walk->best.gpus == NULL || walk->best.nets == NULL ||
        walk->levels == NULL || walk->lists == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t n = 0; n < nets; n++)
        walk->net_left[n] = (int64_t)tutti_nccl_net(system, n)->mbit_per_s * 125;
    return tutti_nccl_lists_init(walk);
}
