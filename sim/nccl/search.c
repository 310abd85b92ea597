/* The order in which NCCL relaxes what it asks for: first any graph, then a faster one (NCCL
 * 2.28.9, search.cc, ncclTopoCompute). */
#include "sim/nccl/search.h"

#include <assert.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "sim/nccl/paths.h"
#include "sim/nccl/walk.h"

enum {
    BUDGET = 1 << 14, /* steps of a walk, and */
    BUDGET_SAME = 1 << 8,
    BUDGET_ALL = 1 << 19, /* of all, once there is a graph */
    HEADS_MAX = 32,       /* NVLS */
    FAN_MAX = 8,          /* CollNet direct */
    SPEEDS_MAX = 24,
    TRIES_FIRST = 64,
    FALLBACK_KBYTE_PER_S = 100000,
};

struct search {
    struct tutti_nccl_system *system;
    const struct tutti_nccl_rules *rules;
    struct tutti_nccl_walk walk;
    struct tutti_nccl_search_log *log;
    uint32_t sm;
    bool inter;
    int pass;
    int64_t speeds[SPEEDS_MAX]; /* kB/s, falling */
    uint32_t speed_count, speed;
    int64_t budget_all;
    uint8_t intra_min, intra_max, inter_min, inter_max; /* types */
    int cross_nic;
    bool try_same;
    bool amd;
};

/* ---- speeds -------------------------------------------------------------------------------- */

/* MB/s of a channel. 2.30 adds what is marked. */
static const uint32_t intra_old[] = {40000, 30000, 20000, 18000, 15000, 12000, 10000,
                                     9000,  7000,  6000,  5000,  4000,  3000};
static const uint32_t inter_old[] = {48000, 30000, 28000, 24000, 20000, 18000, 15000,
                                     12000, 10000, 9000,  7000,  6000,  5000,  4000,
                                     3000,  2400,  1200,  240,   120};
static const uint32_t intra_90[] = {60000, 50000, 40000, 30000, 24000, 20000,
                                    15000, 12000, 11000, 6000,  3000};
static const uint32_t inter_90[] = {48000, 45000, 42000, 40000, 30000, 24000, 22000, 20000, 17500,
                                    15000, 12000, 6000,  3000,  2400,  1200,  240,   120};
static const uint32_t intra_100[] = {90000, 80000, 70000, 60000, 50000, 45000 /* 2.30 */,
                                     40000, 30000, 24000, 20000, 19000, 18000};
static const uint32_t inter_100[] = {96000,
                                     86000 /* 2.30 */,
                                     80000 /* 2.30 */,
                                     48000,
                                     45100,
                                     42000,
                                     40000,
                                     30000,
                                     24000,
                                     22000,
                                     20000,
                                     17500,
                                     15000,
                                     12000,
                                     6000,
                                     3000,
                                     2400,
                                     1200,
                                     240,
                                     120};

static bool is_new(uint32_t mbyte_per_s, bool inter)
{
    return inter ? mbyte_per_s == 86000 || mbyte_per_s == 80000 : mbyte_per_s == 45000;
}

#define LIST(array) array, sizeof(array) / sizeof((array)[0])

static void fill_speeds(struct search *s, const uint32_t *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (s->sm < 100 || s->rules->sm100_more_speeds || !is_new(list[i], s->inter))
            s->speeds[s->speed_count++] = (int64_t)list[i] * 1000;
    assert(s->speed_count <= SPEEDS_MAX);
}

static void choose_speeds(struct search *s)
{
    if (s->sm >= 100 && s->inter)
        fill_speeds(s, LIST(inter_100));
    else if (s->sm >= 100)
        fill_speeds(s, LIST(intra_100));
    else if (s->sm >= 90 && s->inter)
        fill_speeds(s, LIST(inter_90));
    else if (s->sm >= 90)
        fill_speeds(s, LIST(intra_90));
    else if (s->inter)
        fill_speeds(s, LIST(inter_old));
    else
        fill_speeds(s, LIST(intra_old));
}

static void set_speed(struct search *s, uint32_t speed)
{
    s->speed = speed;
    s->walk.now.intra_kbyte_per_s = s->walk.now.inter_kbyte_per_s = s->speeds[speed];
}

/* The fastest that links can carry at all, for the channels wanted at least. */
static uint32_t first_speed(const struct search *s)
{
    int64_t n = s->system->counts[TUTTI_NCCL_GPU];
    int64_t total = s->system->total_kbyte_per_s;
    uint32_t i = 0;

    /* A chain leaves each GPU n - 1 times for n it could. */
    if (n > 1 && s->walk.now.pattern != TUTTI_PATTERN_RING)
        total = total * n / (n - 1);
    while (i < s->speed_count - 1 && (s->speeds[i] > s->system->max_kbyte_per_s ||
                                      s->speeds[i] * s->walk.now.channels_min > total))
        i++;
    return i;
}

/* ---- the log ------------------------------------------------------------------------------- */

static int note_try(struct search *s, int64_t step_count)
{
    struct tutti_nccl_search_log *log = s->log;
    const struct tutti_nccl_candidate *now = &s->walk.now;
    struct tutti_nccl_try *tries;

    if (log->count == log->room) {
        size_t room = log->room == 0 ? TRIES_FIRST : 2 * log->room;

        tries = tutti_arena_take(log->arena, room, sizeof(*tries));
        if (tries == NULL)
            return -TUTTI_ENOMEM;
        if (log->count > 0)
            memcpy(tries, log->tries, log->count * sizeof(*tries));
        log->tries = tries;
        log->room = room;
    }
    log->tries[log->count++] = (struct tutti_nccl_try){
        .pass = (uint8_t)s->pass,
        .pattern = now->pattern,
        .cross_nic = now->cross_nic,
        .type_intra = now->type_intra,
        .type_inter = now->type_inter,
        .same_channels = now->same_channels,
        .bw_intra_GBps = (double)now->intra_kbyte_per_s / 1e6,
        .bw_inter_GBps = (double)now->inter_kbyte_per_s / 1e6,
        .step_count = (uint32_t)step_count,
        .channels_reached = s->walk.limiting_factor.channels_tried,
        .channels_best = s->walk.best.channel_count,
        .better = s->walk.improved,
        .gave_up = s->walk.budget == 0,
        .rate_lacked = s->walk.limiting_factor.rate,
        .refused_intra = s->walk.limiting_factor.type_intra,
        .refused_to_port = s->walk.limiting_factor.type_to_net,
        .refused_from_port = s->walk.limiting_factor.type_from_net,
    };
    return 0;
}

/* ---- pass 1: any graph --------------------------------------------------------------------- */

static bool is_enough(const struct search *s)
{
    return s->walk.budget == TUTTI_WALK_PERFECT ||
           s->walk.best.channel_count * s->walk.best.inter_kbyte_per_s >=
               s->system->total_kbyte_per_s;
}

/* Lets types be farther, one at a time, then ports differ; false: nothing is left but speed. */
static bool relax_types(struct search *s)
{
    struct tutti_nccl_candidate *now = &s->walk.now;
    const struct tutti_nccl_candidate *best = &s->walk.best;
    bool none = best->channel_count == 0;
    uint8_t intra_max = s->inter ? now->type_inter : s->intra_max;

    if (now->type_intra < intra_max && (none || now->type_intra < best->type_intra) &&
        ++now->type_intra < TUTTI_PATH_DIS)
        return true;
    now->type_intra = s->intra_min;
    if (s->inter && now->type_inter < s->inter_max &&
        (none || now->type_inter < best->type_inter || now->type_inter < TUTTI_PATH_PXN) &&
        ++now->type_inter < TUTTI_PATH_DIS)
        return true;
    now->type_inter = s->inter_min;
    if (s->cross_nic == 2 && now->cross_nic == 0 &&
        (best->pattern == TUTTI_PATTERN_RING || best->pattern == TUTTI_PATTERN_BALANCED_TREE)) {
        now->cross_nic = 2;
        return true;
    }
    now->cross_nic = s->cross_nic == 1;
    return false;
}

/* What to ask for next; false: pass 1 is over. */
static bool relax(struct search *s)
{
    struct tutti_nccl_candidate *now = &s->walk.now;
    const struct tutti_nccl_candidate *best = &s->walk.best;

    if (is_enough(s))
        return false;
    if (now->same_channels && !(s->amd && now->type_intra == TUTTI_PATH_SYS)) {
        now->same_channels = false;
        return true;
    }
    now->same_channels = s->try_same;
    s->budget_all += s->walk.budget;
    if (s->budget_all < 0 && best->channel_count > 0)
        return false;
    if (s->sm >= 90 && now->pattern == TUTTI_PATTERN_BALANCED_TREE) {
        now->pattern = TUTTI_PATTERN_TREE;
        return true;
    }
    now->pattern = best->pattern;
    if (relax_types(s))
        return true;
    if (s->speed + 1 < s->speed_count &&
        (best->channel_count == 0 ||
         s->speeds[s->speed + 1] * 100 > best->inter_kbyte_per_s * 49)) {
        set_speed(s, s->speed + 1);
        return true;
    }
    return false;
}

/* ---- pass 2: faster ------------------------------------------------------------------------ */

/* Fast channels are cut in two, as one block of threads does not fill them. */
static void duplicate(struct search *s)
{
    struct tutti_nccl_candidate *best = &s->walk.best;
    uint32_t count =
        2 * best->channel_count < best->channels_max ? 2 * best->channel_count : best->channels_max;
    uint32_t gpus = s->system->counts[TUTTI_NCCL_GPU];
    uint32_t parts;

    if (best->channel_count == 0 || best->pattern == TUTTI_PATTERN_NVLS ||
        best->intra_kbyte_per_s < 25000000 ||
        (s->sm > 80 && best->intra_kbyte_per_s < 50000000 && best->channel_count > 4))
        return;
    for (uint32_t c = best->channel_count; c < count; c++) {
        memcpy(&best->gpus[c * gpus], &best->gpus[(c - best->channel_count) * gpus],
               gpus * sizeof(*best->gpus));
        memcpy(&best->nets[2 * c], &best->nets[2 * (c - best->channel_count)],
               2 * sizeof(*best->nets));
    }
    parts = (count + best->channel_count - 1) / best->channel_count;
    best->intra_kbyte_per_s /= parts;
    best->inter_kbyte_per_s /= parts;
    best->channel_count = count;
}

/* Begins pass 2 at the speed found. */
static void turn(struct search *s)
{
    struct tutti_nccl_candidate *now = &s->walk.now;
    uint32_t speed = 0;

    if (!s->rules->duplicates_last)
        duplicate(s);
    tutti_nccl_candidate_copy(s->system, &s->walk.best, now);
    while (speed < s->speed_count - 1 && s->speeds[speed] > s->walk.best.inter_kbyte_per_s)
        speed++;
    set_speed(s, speed);
    now->channels_min = s->walk.best.channel_count;
    s->walk.budget = TUTTI_WALK_PERFECT;
    s->pass = 2;
}

/* A higher speed to ask for; false: the search is over. */
static bool raise_speed(struct search *s)
{
    struct tutti_nccl_candidate *now = &s->walk.now;
    const struct tutti_nccl_candidate *best = &s->walk.best;

    if (s->walk.budget == 0 || s->speed == 0)
        return false;
    if (best->pattern == TUTTI_PATTERN_RING && s->rules->duplicates_last)
        return false;
    if (best->pattern == TUTTI_PATTERN_RING) {
        set_speed(s, s->speed - 1);
        return true;
    }
    if (best->pattern == TUTTI_PATTERN_NVLS && now->inter_kbyte_per_s == best->inter_kbyte_per_s &&
        now->inter_kbyte_per_s < 2 * now->intra_kbyte_per_s) {
        now->channels_min = now->channels_max = best->channel_count;
        now->inter_kbyte_per_s = s->speeds[--s->speed];
        return true;
    }
    if (now->intra_kbyte_per_s == best->intra_kbyte_per_s &&
        now->intra_kbyte_per_s < 2 * now->inter_kbyte_per_s) {
        now->intra_kbyte_per_s = s->speeds[--s->speed]; /* trees between 2 nodes, CollNet */
        return true;
    }
    return false;
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* The order of ranks, one channel, hardly any speed: so that something runs. */
static void fall_back(struct search *s)
{
    struct tutti_nccl_candidate *best = &s->walk.best;

    for (uint32_t g = 0; g < s->system->counts[TUTTI_NCCL_GPU]; g++)
        best->gpus[g] = g;
    best->nets[0] = best->nets[1] = 0;
    best->intra_kbyte_per_s = best->inter_kbyte_per_s = FALLBACK_KBYTE_PER_S;
    best->type_intra = best->type_inter = TUTTI_PATH_SYS;
    best->channel_count = 1;
    s->log->collapsed = true;
}

static int try_once(struct search *s)
{
    int64_t steps_before = s->walk.steps_taken;

    s->walk.budget = s->walk.now.same_channels ? BUDGET_SAME : BUDGET;
    s->budget_all -= s->walk.budget;
    if (tutti_nccl_walk_run(&s->walk) < 0)
        return -TUTTI_ENOMEM;
    return note_try(s, s->walk.steps_taken - steps_before);
}

static void set_types(struct search *s)
{
    const struct tutti_nccl_system *system = s->system;

    s->intra_min = TUTTI_PATH_LOC;
    s->inter_min = TUTTI_PATH_PIX;
    s->intra_max = s->inter_max = TUTTI_PATH_SYS;
    if (system->counts[TUTTI_NCCL_GPU] > 1) {
        s->intra_min = tutti_nccl_type_min(system, TUTTI_NCCL_GPU);
        s->intra_max = tutti_nccl_type_max(system, TUTTI_NCCL_GPU);
    }
    if (s->inter) {
        s->inter_min = tutti_nccl_type_min(system, TUTTI_NCCL_NET);
        s->inter_max = tutti_nccl_type_max(system, TUTTI_NCCL_NET);
    }
    s->log->type_inter_max = s->inter_max;
}

/* What is asked for at first. */
static void set_request(struct search *s, const struct tutti_nccl_request *request)
{
    struct tutti_nccl_candidate *best = &s->walk.best;
    uint32_t gpus = s->system->counts[TUTTI_NCCL_GPU];
    bool pairs = request->pattern == TUTTI_PATTERN_RING ||
                 request->pattern == TUTTI_PATTERN_BALANCED_TREE ||
                 request->pattern == TUTTI_PATTERN_SPLIT_TREE;

    s->cross_nic = s->system->counts[TUTTI_NCCL_NET] > 1 && pairs ? s->rules->cross_nic : 0;
    s->try_same = request->pattern != TUTTI_PATTERN_NVLS;
    best->pattern = request->pattern;
    best->collnet = request->collnet;
    best->cross_nic = s->cross_nic == 1;
    best->type_intra = s->intra_min;
    best->type_inter = s->inter_min;
    best->same_channels = s->try_same;
    best->channels_min = request->channels_min;
    best->channels_max = request->channels_max;
    if (request->pattern == TUTTI_PATTERN_NVLS)
        best->channels_max = gpus < HEADS_MAX ? gpus : HEADS_MAX;
    if (request->pattern == TUTTI_PATTERN_COLLNET_DIRECT)
        best->channels_max = gpus < FAN_MAX ? gpus : FAN_MAX;
    if (gpus == 1 && best->pattern != TUTTI_PATTERN_RING)
        best->pattern = TUTTI_PATTERN_TREE;
    if (!s->inter && best->pattern == TUTTI_PATTERN_NVLS)
        best->channels_min = best->channels_max; /* all GPUs pull the same */
    if (best->pattern == TUTTI_PATTERN_RING && best->channels_max >= 2 && best->channels_min == 1 &&
        tutti_nccl_nvlink_is_split(s->system, s->walk.scratch))
        best->channels_min = 2; /* trees of two sockets need two, and rings have as many */
}

static int find(struct search *s)
{
    struct tutti_nccl_candidate *best = &s->walk.best;
    int status;

    tutti_nccl_candidate_copy(s->system, best, &s->walk.now);
    s->budget_all = BUDGET_ALL;
    s->pass = 1;
    set_speed(s, first_speed(s));
    do {
        status = try_once(s);
    } while (status == 0 && relax(s));
    if (status == 0)
        turn(s);
    while (status == 0 && raise_speed(s))
        status = try_once(s);
    if (status == 0 && s->rules->duplicates_last)
        duplicate(s);
    if (status == 0 && best->channel_count == 0 && !best->collnet &&
        best->pattern != TUTTI_PATTERN_NVLS)
        fall_back(s);
    s->log->steps_taken = s->walk.steps_taken;
    return status;
}

int tutti_nccl_search(struct tutti_nccl_system *system, const struct tutti_nccl_rules *rules,
                      const struct tutti_nccl_request *request, struct tutti_arena *arena,
                      struct tutti_nccl_candidate *ret, struct tutti_nccl_search_log *log,
                      struct tutti_err *err)
{
    struct search s = {.system = system, .rules = rules, .log = log};
    const struct tutti_hw_cpu *cpu = &system->hardware->cpus[0];
    uint32_t room = request->channels_max > HEADS_MAX ? request->channels_max : HEADS_MAX;
    int status;

    s.sm = tutti_nccl_sm_min(system);
    s.inter = system->counts[TUTTI_NCCL_NET] > 0;
    s.amd = cpu->arch == TUTTI_ARCH_X86_64 && cpu->vendor == TUTTI_VENDOR_AMD;
    if (tutti_nccl_walk_init(&s.walk, system, rules, room, arena) < 0)
        return tutti_nomem(err);
    set_types(&s);
    set_request(&s, request);
    choose_speeds(&s);
    status = s.walk.best.pattern == TUTTI_PATTERN_NVLS &&
                     (system->counts[TUTTI_NCCL_NVS] == 0 || s.sm < 90)
                 ? 0
                 : find(&s);
    if (status < 0)
        return tutti_nomem(err);
    *ret = s.walk.best;
    return 0;
}

void tutti_nccl_candidate_copy(const struct tutti_nccl_system *system,
                               const struct tutti_nccl_candidate *from,
                               struct tutti_nccl_candidate *to)
{
    uint32_t *gpus = to->gpus;
    uint32_t *nets = to->nets;
    size_t room = (size_t)from->channel_count * system->counts[TUTTI_NCCL_GPU];

    *to = *from;
    to->gpus = gpus;
    to->nets = nets;
    memcpy(gpus, from->gpus, room * sizeof(*gpus));
    memcpy(nets, from->nets, (size_t)from->channel_count * 2 * sizeof(*nets));
}
