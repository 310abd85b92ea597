/* What limits a prediction; see limit.h. Where something is slower by a small part, the time grows
 * by that part of what hangs on it: so the parts add up to the whole, and overlap of what does not
 * bind counts nothing. */
#include "sim/limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/play/wires.h"
#include "sim/predict/stretch.h"
#include "sim/shape/nccl_run.h"

enum { SLOWER_PPM = 950000, MORE_PS = 1000 };

/* What each simulation may take at most: about a second. */
enum { SECONDS_MAX = 2, STEPS_MAX = 1 << 22 };

/* tutti_predict() allows steps of folded ranks 8 times as many, as those of rings are. Others take
 * more time than unfolded ones, as links that are shared are divided anew at each. */
static uint64_t steps_max(const struct tutti_answer *answer)
{
    return answer->folded && answer->event_count > STEPS_MAX ? STEPS_MAX / 64 : STEPS_MAX;
}

/* The links of a kind of hop. */
struct hop_links {
    bool any;
    bool faster;             /* some are faster than the slowest */
    struct tutti_link least; /* the slowest, of equals the first */
};

struct trial {
    struct tutti_ask ask;
    struct tutti_bound_law law;
    tutti_ps time_ps; /* as it is */
    int status;       /* the first failure */
    struct hop_links links[TUTTI_HOP_COUNT];
};

/* By how much the time grows, which may be negative. */
static tutti_ps growth(struct trial *trial, const struct tutti_stretch *stretch)
{
    struct tutti_answer answer = {.time_ps = trial->time_ps};

    trial->ask.stretch = stretch;
    if (trial->status == 0)
        trial->status = tutti_predict(&trial->ask, &answer, NULL);
    return answer.time_ps - trial->time_ps;
}

/* The part of the time that hangs on a rate which was slowed down, in percent. */
static double percent(const struct trial *trial, tutti_ps grown_ps)
{
    double slower = (double)TUTTI_PPM / SLOWER_PPM - 1;
    double part = 100.0 * (double)grown_ps / (double)trial->time_ps / slower;

    return part < 0 ? 0 : part < 100 ? part : 100; /* where what binds changes within the 5 % */
}

/* To five digits. */
static uint64_t rounded(uint64_t value)
{
    uint64_t unit = 1;

    while (value / unit >= 100000)
        unit *= 10;
    return (value / unit + (value % unit >= unit - unit / 2 ? 1 : 0)) * unit;
}

static void say_launch(tutti_ps launch_ps, double part, char *ret)
{
    char text[TUTTI_UNIT_TEXT_BYTES];

    (void)snprintf(ret, TUTTI_LIMIT_TEXT_BYTES, "launch of %s (%.0f %%)",
                   tutti_print_time((tutti_ps)rounded((uint64_t)launch_ps), text), part);
}

static void say_latency(struct trial *trial, double part, char *ret)
{
    struct tutti_stretch stretch = tutti_stretch_none();
    tutti_ps grown_ps;

    stretch.message_ps = MORE_PS;
    grown_ps = growth(trial, &stretch);
    if (trial->status == 0 && grown_ps >= MORE_PS)
        (void)snprintf(ret, TUTTI_LIMIT_TEXT_BYTES, "latency of %" PRId64 " step%s (%.0f %%)",
                       grown_ps / MORE_PS, grown_ps / MORE_PS == 1 ? "" : "s", part);
}

/* Goes through all links, once. */
static void sort_links(struct trial *trial)
{
    const struct tutti_topo *topo = trial->ask.topo;

    for (uint32_t i = 0; i < topo->link_count; i++) {
        struct hop_links *links = &trial->links[tutti_link_hop(topo, i)];
        uint64_t rate = tutti_topo_link_figures(topo, i).bytes_per_s;

        links->faster |= links->any && rate != links->least.bytes_per_s;
        if (!links->any || rate < links->least.bytes_per_s)
            links->least = tutti_topo_link(topo, i);
        links->any = true;
    }
}

static void say_links(const struct trial *trial, enum tutti_hop hop, double part, char *ret)
{
    const struct tutti_topo *topo = trial->ask.topo;
    const struct tutti_link *least = &trial->links[hop].least;
    const char *kind = tutti_link_kind_name((enum tutti_link_kind)least->kind);
    char names[2][TUTTI_NODE_NAME_BYTES];
    char rate[TUTTI_UNIT_TEXT_BYTES];

    (void)tutti_print_rate(rounded(least->bytes_per_s), rate);
    if (!trial->links[hop].faster)
        (void)snprintf(ret, TUTTI_LIMIT_TEXT_BYTES, "%s links of %s (%.0f %%)", kind, rate, part);
    else
        (void)snprintf(ret, TUTTI_LIMIT_TEXT_BYTES,
                       "%s links (%.0f %%), the slowest %.40s -> %.40s of %s", kind, part,
                       tutti_topo_node_name(topo, least->from, names[0]),
                       tutti_topo_node_name(topo, least->to, names[1]), rate);
}

/* The kind of links on which most hangs, of those that there are. */
static void find_links(struct trial *trial, char *ret)
{
    enum tutti_hop most = TUTTI_HOP_COUNT;
    tutti_ps most_ps = 0;

    sort_links(trial);
    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++) {
        struct tutti_stretch stretch = tutti_stretch_none();
        tutti_ps grown_ps;

        if (!trial->links[hop].any)
            continue;
        stretch.link_ppm[hop] = SLOWER_PPM;
        grown_ps = growth(trial, &stretch);
        most = grown_ps > most_ps ? (enum tutti_hop)hop : most;
        most_ps = grown_ps > most_ps ? grown_ps : most_ps;
    }
    if (trial->status == 0 && most < TUTTI_HOP_COUNT)
        say_links(trial, most, percent(trial, most_ps), ret);
}

static double most_of(const double *parts, size_t count)
{
    double most = parts[0];

    for (size_t i = 1; i < count; i++)
        most = parts[i] > most ? parts[i] : most;
    return most;
}

static void find_limit(struct trial *trial, const char *protocol, char *ret)
{
    enum { LAUNCH, LANES, SLICES, LINKS, LATENCY, PARTS };
    struct tutti_stretch stretch = tutti_stretch_none();
    double parts[PARTS];
    double most;
    tutti_ps launch_ps;

    stretch.launched = false;
    launch_ps = -growth(trial, &stretch);
    parts[LAUNCH] = launch_ps > 0 ? 100.0 * (double)launch_ps / (double)trial->time_ps : 0;
    stretch = tutti_stretch_none();
    stretch.lane_ppm = SLOWER_PPM;
    parts[LANES] = percent(trial, growth(trial, &stretch));
    stretch = tutti_stretch_none();
    stretch.slice_ppm = SLOWER_PPM;
    parts[SLICES] = percent(trial, growth(trial, &stretch));
    stretch = tutti_stretch_none();
    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++)
        stretch.link_ppm[hop] = SLOWER_PPM;
    parts[LINKS] = percent(trial, growth(trial, &stretch));
    parts[LATENCY] = 100.0 - parts[LAUNCH] - parts[LANES] - parts[SLICES] - parts[LINKS];
    if (trial->status < 0)
        return;
    most = most_of(parts, PARTS);
    if (parts[LAUNCH] >= most)
        say_launch(launch_ps, most, ret);
    else if (parts[LANES] >= most)
        (void)snprintf(ret, TUTTI_LIMIT_TEXT_BYTES, "lane rate of protocol %s (%.0f %%)", protocol,
                       most);
    else if (parts[SLICES] >= most)
        (void)snprintf(ret, TUTTI_LIMIT_TEXT_BYTES, "overhead of each message (%.0f %%)", most);
    else if (parts[LINKS] >= most)
        find_links(trial, ret);
    else if (trial->ask.params.collective != TUTTI_CUSTOM) /* whose rest may be work */
        say_latency(trial, most, ret);
}

/* How many ranks each trial simulates. */
static uint32_t ranks_of(const struct tutti_ask *ask, const struct tutti_answer *answer)
{
    return answer->folded ? answer->class_count : ask->topo->rank_count;
}

int tutti_predict_limit(const struct tutti_ask *ask, const struct tutti_answer *answer,
                        char ret[TUTTI_LIMIT_TEXT_BYTES], struct tutti_err *err)
{
    struct trial trial = {
        .ask = *ask, .law = tutti_bound_law_none(ask->topo), .time_ps = answer->time_ps};

    struct tutti_predict_memory *own = NULL;
    int status = 0;

    (void)snprintf(ret, TUTTI_LIMIT_TEXT_BYTES, "not known");
    if (ranks_of(ask, answer) > TUTTI_LIMIT_RANKS_MAX || ask->jitter > 0 || answer->time_ps <= 0)
        return 0;
    if (ask->memory == NULL)
        status = tutti_predict_memory_new(&own, err);
    if (status < 0)
        return status;
    if (ask->algorithm == NULL || !tutti_is_nccl(ask->algorithm)) { /* what won, as it won */
        trial.ask.algorithm = answer->algorithm;
        trial.ask.protocol = answer->protocol;
    }
    trial.ask.bound_law = &trial.law;
    trial.ask.fold = NULL; /* as is cheapest: times are the same */
    trial.ask.seconds_max = SECONDS_MAX;
    trial.ask.strict = true;
    trial.ask.force = false;
    trial.ask.record = NULL;
    trial.ask.memory = own != NULL ? own : ask->memory;
    trial.ask.step_count_max = steps_max(answer);
    find_limit(&trial, answer->protocol, ret);
    tutti_predict_memory_free(own);
    return trial.status == -TUTTI_ENOMEM ? tutti_nomem(err) : 0;
}
