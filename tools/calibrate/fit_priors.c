/* Where values begin, and how far they may stray from their like; see fit_priors.h. */
#include "tools/calibrate/fit_priors.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/calibrate/fit_values.h"

/* A message's step may take so many times what it begins with, which is NCCL's own figure or
 * assumed like it: 42 us over a network, where a whole send and receive of a few bytes takes 14.5
 * us between hosts of B200 and 42 of A100 behind a CPU (traces/measured/). Longer steps would stand
 * for rates: eight on their way at once move no more than so many bytes a step. */
enum { STEP_TIMES_MAX = 3 };

static const double LEAST_LAUNCH_US = 2.5;                      /* see tutti_fit_least() */
static const double LEAST_STEP_US = 0.3, LEAST_CROSSING_US = 1; /* the same */

/* Whether a word of a table is that, or is for any. */
static bool fits(const char *word, const char *of)
{
    return word[0] == '\0' || strcmp(word, of) == 0;
}

/* How far the parameters of a level may stray: latencies and rates of hardware differ by factors,
 * what is lost on links by some percent, and most of both between GPUs on one kind of network, not
 * between networks; but what LL keeps of a network differs by factors, too. The figures are those
 * that predict sites and platforms left out best, by searches on the linear models of 2026-11-22
 * and 23; but for LL's none of them matters much. Those of launches are older than their least, and
 * were not searched for again: they hold now for what lies above it. A network's Simple is kept to
 * short steps and may lose more of its links: free steps of a hundred us and more, eight on their
 * way at once, took the place of what a network's links lose, and told nothing of other sizes and
 * sites. What LL takes to launch and adds for a channel hangs little on the links: kept closer to
 * the start than the others', sites left out are predicted better (below 1 MiB 18.9 % to 17.6 in
 * the median, 2026-11-25). What a step takes on a link hangs little on the GPU, too, where it
 * cannot go to nothing (20.3 % to 19.3 by fits from the priors without a fifth of all sites; from
 * 1 MiB on it makes no difference, 2026-11-26). */
double tutti_fit_freedom(const char *quantity, const char *group, const char *protocol, int level)
{
    static const struct {
        const char *quantity, *group, *protocol; /* "": any */
        double sigmas[TUTTI_FIT_LEVELS];
    } freedoms[] = {{"launch_us", "", "ll", {0.15, 0.15, 0.12, 0.1}},
                    {"launch_us", "", "", {0.4, 0.15, 0.12, 0.1}},
                    {"channel_us", "", "ll", {0.4, 0.3, 0.15, 0.1}},
                    {"channel_us", "", "", {0.8, 0.3, 0.15, 0.1}},
                    {"early_channel_us", "", "", {0.8, 0.3, 0.15, 0.1}},
                    {"step_us", "net", "simple", {0.6, 0.4, 0.25, 0.2}},
                    {"step_us", "", "", {1, 0.6, 0.4, 0.3}},
                    {"slice_us", "", "", {1, 0.6, 0.3, 0.25}},
                    {"lane_GBps", "nvls", "simple", {0.3, 0.1, 0.15, 0.1}},
                    {"p2p_launch_us", "", "", {0.4, 0.15, 0.12, 0.1}},
                    {"p2p_step_us", "", "", {0.6, 0.4, 0.25, 0.2}},
                    {"link_percent", "net", "ll", {0.8, 0.4, 0.25, 0.2}},
                    {"link_percent", "net", "simple", {0.03, 0.05, 0.08, 0.04}},
                    {"link_percent", "root", "simple", {0.3, 0.1, 0.1, 0.1}},
                    {"link_percent", "peer", "simple", {0.3, 0.1, 0.1, 0.1}},
                    {"link_percent", "", "", {0.06, 0.03, 0.15, 0.05}},
                    {"p2p_percent", "", "", {0.1, 0.4, 0.15, 0.05}},
                    {"", "", "", {0.8, 0.5, 0.3, 0.25}}};

    for (size_t i = 0;; i++) {
        if (fits(freedoms[i].quantity, quantity) && fits(freedoms[i].group, group) &&
            fits(freedoms[i].protocol, protocol))
            return freedoms[i].sigmas[level];
    }
}

static const char *const protocol_names[TUTTI_PROTOCOLS] = {"ll", "ll128", "simple"};

/* Where a quantity begins, by group of links and protocol; launch_us and step_us as in NCCL 2.28
 * tuning.cc (ring). 0: it is not fitted. Of all that may bind the rate of a way only one is, or
 * each would hide what the others lose: in LL what a lane moves, else the share of links, behind
 * PCIe (whose share is given, see tutti_fit_base()) again the lane, through a CPU the share of
 * its root complex, between hosts the share of the network; but a lane over TCP is one stream,
 * which one thread of a CPU copies: some 15 Gb/s, and messages pass two kernels (both assumed); and
 * on xGMI links bind RCCL's rings, several of which share each, and lanes MSCCL's all-pairs, which
 * has one between any two.
 * LL's lanes on NVLink begin by generation of GPUs: what NCCL 2.28 takes LL for on one host
 * (tuning.cc, llMaxBws) over the channels of hosts of 8.
 * What is of sends and receives alone begins with the launch and steps of all, in the protocols
 * that they run in, and where a block of threads copies some 20 GB/s (perChMaxRingLL128 of
 * tuning.cc up to A100; between hosts Hopper's 36.7, or blocks would hide what networks lose), and
 * little is lost: on PCIe no more than to rings, for there the lanes
 * bind, but a fifth of that in root complexes, where several of them meet, and two where NICs read
 * from GPUs behind a CPU: begun where two of these bind alike, a search moves neither.
 * Of what NVSwitch adds up both bind: of 8 GPUs links do, of the 64 of a rack the lanes.
 * What a slice takes is of a network's proxies, the same where a CPU lies before the NIC: some
 * calls of its library for each message (assumed; those of Simple wait for a flush, too). */
struct start {
    const char *quantity;
    const char *group;
    const char *gpu; /* a family */
    double values[TUTTI_PROTOCOLS];
};
static const struct start starts[] = {
    {"link_percent", "nvlstree", "", {0, 0, 60}},
    {"launch_us", "nvls", "", {0, 0, 12}},
    {"step_us", "nvls", "", {0, 0, 3}},
    {"slice_us", "nvls", "", {0, 0, 4}},
    {"lane_GBps", "nvls", "", {0, 0, 20}},
    {"link_percent", "nvls", "", {0, 0, 75}},
    {"channel_us", "", "", {0.1, 0.1, 0.1}},
    {"early_channel_us", "", "", {1.2, 1.2, 1.2}},
    {"step_us", "tcp", "", {30, 40, 100}},
    {"lane_GBps", "tcp", "", {0, 1.9, 1.9}},
    {"launch_us", "", "", {6.6, 14, 8.4}},
    {"step_us", "net", "", {2.7, 4, 14}},
    {"step_us", "pcie", "", {1, 2.5, 5.7}},
    {"step_us", "", "", {0.6, 1.9, 3.4}},
    {"slice_us", "cpunet", "", {0, 0, 0}},
    {"slice_us", "net", "", {0.7, 0.7, 1.5}},
    {"slice_us", "", "", {0, 0, 3}},
    {"lane_GBps", "cpunet", "", {2, 6, 0}},
    {"lane_GBps", "net", "", {0, 0, 0}},
    {"lane_GBps", "host", "", {2, 6, 0}},
    {"lane_GBps", "pcie", "", {2, 6, 10}},
    {"lane_GBps", "xgmi", "", {6, 0, 30}},
    {"lane_GBps", "nvlink", "p100", {39.0 / 12, 20, 0}},
    {"lane_GBps", "nvlink", "v100", {39.0 / 12, 20, 0}},
    {"lane_GBps", "nvlink", "a100", {87.7 / 24, 20, 0}},
    {"lane_GBps", "nvlink", "a10", {87.7 / 24, 20, 0}},
    {"lane_GBps", "nvlink", "h100", {141.0 / 16, 20, 0}},
    {"lane_GBps", "nvlink", "b200", {282.0 / 32, 20, 0}},
    {"lane_GBps", "", "", {6, 20, 0}},
    {"link_percent", "root", "", {0, 0, 60}},
    {"link_percent", "peer", "", {0, 0, 75}},
    {"link_percent", "pcie", "", {0, 0, 0}},
    {"link_percent", "net", "", {92, 92, 97}},
    {"link_percent", "", "", {0, 82, 82}},
    {"p2p_launch_us", "", "", {6.6, 0, 8.4}},
    {"p2p_step_us", "tcp", "", {30, 0, 100}},
    {"p2p_step_us", "net", "", {2.7, 0, 14}},
    {"p2p_step_us", "pcie", "", {1, 0, 5.7}},
    {"p2p_step_us", "", "", {0.6, 0, 3.4}},
    {"p2p_GBps", "nvls", "", {0, 0, 0}},
    {"p2p_GBps", "tcp", "", {0, 0, 1.9}},
    {"p2p_GBps", "pcie", "", {0, 0, 11}},
    {"p2p_GBps", "net", "", {0, 0, 36.7}},
    {"p2p_GBps", "", "", {0, 0, 20}},
    {"p2p_percent", "nvls", "", {0, 0, 0}},
    {"p2p_percent", "pcie", "", {0, 0, 0}},
    {"p2p_percent", "root", "", {0, 0, 80}},
    {"p2p_percent", "cpunet", "", {0, 0, 60}},
    {"p2p_percent", "", "", {0, 0, 95}},
};

struct tutti_fit_parts tutti_fit_split(const char *name)
{
    struct tutti_fit_parts parts = {{0}, {0}, {0}, {0}};
    int count = sscanf(name, "%13[^.].%13[^.].%13[^.].%17s", parts.gpu, parts.link, parts.protocol,
                       parts.quantity);

    assert(count == 4);
    return parts;
}

const char *tutti_fit_group(const char *link)
{
    static const char *const within[] = {"nvlink", "nvswitch", "xgmi", "c2c", "ici", "generic"};

    if (strncmp(link, "nvls", 4) == 0)
        return "nvls";
    if (strcmp(link, "root") == 0 || strcmp(link, "peer") == 0)
        return link;
    if (strcmp(link, "pcie") == 0 || strcmp(link, "host") == 0)
        return "pcie";
    for (size_t i = 0; i < sizeof(within) / sizeof(within[0]); i++) {
        if (strcmp(link, within[i]) == 0)
            return "nvlink";
    }
    return "net";
}

const char *tutti_fit_sharers(const struct tutti_fit_parts *parts)
{
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        if (strcmp(starts[i].quantity, parts->quantity) == 0 &&
            strcmp(starts[i].group, parts->link) == 0)
            return parts->link;
    }
    return tutti_fit_group(parts->link);
}

uint8_t tutti_fit_protocol(const char *name)
{
    for (uint8_t i = 0; i < TUTTI_PROTOCOLS; i++) {
        if (strcmp(name, protocol_names[i]) == 0)
            return i;
    }
    assert(false);
    return 0;
}

double tutti_fit_start(const struct tutti_fit_parts *parts, const char *group)
{
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        if (strcmp(starts[i].quantity, parts->quantity) == 0 &&
            fits(starts[i].gpu, tutti_calib_gpu_family(parts->gpu)) &&
            (fits(starts[i].group, group) || strcmp(starts[i].group, parts->link) == 0))
            return starts[i].values[tutti_fit_protocol(parts->protocol)];
    }
    return 0;
}

double tutti_fit_least(const struct tutti_fit_parts *parts)
{
    if (strcmp(parts->quantity, "launch_us") == 0)
        return LEAST_LAUNCH_US;
    if (strcmp(parts->quantity, "step_us") != 0)
        return 0;
    return strcmp(tutti_fit_group(parts->link), "net") == 0 ? LEAST_CROSSING_US : LEAST_STEP_US;
}

double tutti_fit_most(const struct tutti_fit_parts *parts, const char *group)
{
    if (strstr(parts->quantity, "_percent") != NULL)
        return 100;
    if (strstr(parts->quantity, "_GBps") != NULL)
        return 1e4;
    if (strcmp(parts->quantity, "p2p_step_us") == 0)
        return STEP_TIMES_MAX * tutti_fit_start(parts, group);
    return 1e5;
}

static int give(struct tutti_calib *calib, const char *link, uint8_t protocol, double percent,
                const char *source, struct tutti_err *err)
{
    struct tutti_calib_value value = {.value = percent, .low = NAN, .high = NAN};
    char name[TUTTI_CALIB_NAME_BYTES];

    (void)snprintf(value.source, sizeof(value.source), "%s", source);
    (void)snprintf(name, sizeof(name), "any.%s.%s.link_percent", link, protocol_names[protocol]);
    return tutti_calib_set(calib, name, &value, err);
}

/* PCIe into a CPU is fitted in Simple alone, where lanes do not bind before it. */
int tutti_fit_base(struct tutti_calib **ret, struct tutti_err *err)
{
    struct tutti_calib *calib = NULL;
    int status = tutti_calib_new(&calib, err);

    if (status == 0)
        status = tutti_calib_set_source(calib, "pcie",
                                        "packets of 256 B lose some 15 % of the line rate to "
                                        "headers and credits; assumed",
                                        err);
    if (status == 0)
        status = tutti_calib_set_source(calib, "cpus",
                                        "rates between CPUs are no line rates but NCCL's, of what "
                                        "GPUs get there",
                                        err);
    for (uint8_t i = 0; i < TUTTI_PROTOCOLS && status == 0; i++) {
        status = give(calib, "pcie", i, 85, "pcie", err);
        if (status == 0)
            status = give(calib, "host", i, 100, "cpus", err);
        if (status == 0 && i + 1 < TUTTI_PROTOCOLS)
            status = give(calib, "root", i, 85, "pcie", err);
    }
    if (status < 0) {
        tutti_calib_free(calib);
        return status;
    }
    *ret = calib;
    return 0;
}
