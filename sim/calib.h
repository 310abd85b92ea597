/* Calibration: what protocols cost on real hardware, as named numbers that can be read from a file,
 * printed, fitted, and put together for a machine.
 *
 * A parameter's name has four parts, GPU.LINK.PROTOCOL.QUANTITY, as "h100.nvswitch.ll.step_us":
 *   GPU       the class of the devices, or "any"                 tutti_calib_gpu_name()
 *   LINK      the class of the slowest hop, or "any"; "nvls": NVSwitch adding up, for which
 *             step_us is from a stage of its pipeline to the next, slice_us what a loop takes
 *             besides its bytes, lane_GBps what a channel scatters and gathers (without a value
 *             p2p_GBps), and launch_us counts instead of that of links; with "simple";
 *             "nvlstree": the same on several hosts that trees join (NVLSTree), for link_percent
 *             alone; without a value that of "nvls";
 *             "root": PCIe between a CPU and what is not a NIC, for link_percent alone, of data
 *             both ways (one way alone is as "pcie": see tutti_protocol_one_way());
 *             "peer": the same where GPUs write to each other's memory through the CPU, not to its;
 *             "cpunet": ib, roce or efa where a GPU reaches the NIC through a CPU
 *   PROTOCOL  "ll", "ll128" or "simple"
 *   QUANTITY  what is added or allowed, in the unit it ends with:
 *     launch_us     once a run, by the slowest kind of link that the machine has
 *     rank_us       the same for each rank of the communicator
 *     channel_us    the same for each channel that carries data, of NCCL from 2.22 on: by the
 *                   slowest kind of link within a host, whose own it is
 *     early_channel_us  the same of NCCL before; neither of what NVSwitch adds up
 *     step_us       to the latency of a message (message_ps of struct tutti_protocol)
 *     slice_us      time for which a message has its connection besides its bytes (slice_ps);
 *                   in NCCL's rings, trees and PAT between hosts that long for each connection
 *                   that the rank's one thread for networks, its proxy, serves
 *     lane_GBps     data bytes that one lane moves over one connection; 0: as the links allow
 *     link_percent  of the rate of links of this class, what wire bytes can use
 *     p2p_launch_us, p2p_step_us  launch_us (with rank_us) and step_us of sends and receives
 *     p2p_GBps      lane_GBps of sends and receives (all-to-all, send/receive as NCCL runs them):
 *                   what one channel copies of a message
 *     p2p_percent   of link_percent, what the messages of sends and receives can use; with "root"
 *                   of that of "pcie"
 * Of root, peer, nvls and nvlstree there are the quantities named above and no others.
 * What devices take of a training step has names of three parts, framework.FRAMEWORK.CONSTANT, as
 * "framework.deepspeed.attention": see struct tutti_framework and tutti_framework_constants()
 * (sim/device.h).
 * What has no value is looked for under more general classes, first of links (nvswitch, nvlink,
 * any; peer, root), then, for each, of GPUs (gb200, b200, any); what is found nowhere is 0, or 100
 * percent.
 *
 * The text, one value a line; # begins a comment:
 *   calibration TEXT...              what it is called (the rest of the line)
 *   source WORD TEXT...              where numbers come from
 *   NAME VALUE [LOW HIGH] [WORD]     a parameter, its 95 % interval, and its source
 *   h100.nvswitch.ll.step_us  0.62  0.60 0.65  fit
 */
#ifndef TUTTI_SIM_CALIB_H
#define TUTTI_SIM_CALIB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "sim/protocol.h"

TUTTI_API_BEGIN

struct tutti_calib;
struct tutti_err;
struct tutti_framework;
struct tutti_topo;

enum { TUTTI_CALIB_NAME_BYTES = 64, TUTTI_CALIB_SOURCE_BYTES = 32 };

struct tutti_calib_value {
    double value; /* in the unit of the name */
    double low;   /* the interval: low <= value <= high; both NAN: not known */
    double high;
    char source[TUTTI_CALIB_SOURCE_BYTES]; /* the word of a source, or "" */
};

/* ---- coming and going ------------------------------------------------------------------------ */

int tutti_calib_new(struct tutti_calib **ret, struct tutti_err *err); /* without values */
void tutti_calib_free(struct tutti_calib *calib);
int tutti_calib_copy(const struct tutti_calib *calib, struct tutti_calib **ret,
                     struct tutti_err *err);

/* Those that were compiled in: what was fitted to public measurements
 * (traces/measured/fitted.calib), and NCCL's own figures, by which it chooses (nccl.calib). */
int tutti_calib_builtin(struct tutti_calib **ret, struct tutti_err *err);
int tutti_calib_nccl(struct tutti_calib **ret, struct tutti_err *err);

/* Reads the text; `name` is used in messages, which name the line. -TUTTI_EINVAL. */
int tutti_calib_parse(const char *name, const char *text, size_t bytes, struct tutti_calib **ret,
                      struct tutti_err *err);
/* Writes it, sources first, then parameters in order; parse(print(c)) equals c. *ret is freed by
 * the caller with free(). */
int tutti_calib_print(const struct tutti_calib *calib, char **ret, struct tutti_err *err);

/* ---- parameters ------------------------------------------------------------------------------ */

const char *tutti_calib_title(const struct tutti_calib *calib); /* "" if it has none */
int tutti_calib_set_title(struct tutti_calib *calib, const char *title, struct tutti_err *err);
/* The text of a source, or NULL; another text replaces it. */
const char *tutti_calib_source(const struct tutti_calib *calib, const char *word);
int tutti_calib_set_source(struct tutti_calib *calib, const char *word, const char *text,
                           struct tutti_err *err);

/* All that have a value, in the order of the classes: number `index`, or NULL past the last, and
 * its name. */
const struct tutti_calib_value *tutti_calib_at(const struct tutti_calib *calib, size_t index,
                                               char name[TUTTI_CALIB_NAME_BYTES]);
/* The value of just this name; *ret NULL: it has none. -TUTTI_EINVAL for what is no name, or one
 * that no machine asks for, with what would be one. Valid until the next change. */
int tutti_calib_get(const struct tutti_calib *calib, const char *name,
                    const struct tutti_calib_value **ret, struct tutti_err *err);
/* Gives it another. -TUTTI_EINVAL for a value out of range (not negative; percent above 0, at most
 * 100; times up to 1 s, rates up to 1e6 GB/s), an interval that does not hold it, or a source that
 * was not set before. */
int tutti_calib_set(struct tutti_calib *calib, const char *name,
                    const struct tutti_calib_value *value, struct tutti_err *err);
/* Takes the value away, if it has one. */
int tutti_calib_unset(struct tutti_calib *calib, const char *name, struct tutti_err *err);

/* Names of the classes and quantities: number `index`, or NULL past the last. */
const char *tutti_calib_gpu_name(size_t index);
const char *tutti_calib_link_name(size_t index);
/* Of the classes that a GPU's is looked up under the last before "any": "b200" of "gb300". The name
 * itself where it is none. */
const char *tutti_calib_gpu_family(const char *name);
const char *tutti_calib_quantity_name(size_t index);

/* ---- for a machine --------------------------------------------------------------------------- */

/* What a machine is to a calibration: the classes of its GPUs and, by kind of hop, of its links.
 * Names are of the tables above. */
struct tutti_calib_machine {
    const char *gpu;
    const char *links[TUTTI_HOP_COUNT]; /* NULL: it has none of the kind */
    bool routes[TUTTI_HOP_COUNT];       /* whether messages go routes of that kind */
    enum tutti_hop slowest;             /* of these */
    enum tutti_hop inner;               /* the slowest within a host; TUTTI_HOP_COUNT: none */
    bool nvls;                          /* a switch of NVLink reduces */
    uint32_t rank_count;
};

/* From topo->hardware and topo->net_kind where they are known, else from nodes and links: GPUs of
 * an unknown kind are "any", networks "net". Looks at the routes of some ranks. */
struct tutti_calib_machine tutti_calib_machine_of(const struct tutti_topo *topo);

/* A parameter that a machine asks for: the name that would fit it best, and where a value was
 * found. To enumerate what a fit to measurements of that machine can say. */
struct tutti_calib_use {
    char name[TUTTI_CALIB_NAME_BYTES];
    char found[TUTTI_CALIB_NAME_BYTES]; /* the more general name that has a value; "": none has */
    const struct tutti_calib_value *value; /* NULL: none */
};
/* Number `index`, by protocol, kind of hop and quantity: launch_us and rank_us for the slowest kind
 * of route, what channels cost for the slowest within a host, link_percent for each kind of link,
 * the rest for each kind of route; then those of NVLS; false past the last. */
bool tutti_calib_use(const struct tutti_calib *calib, const struct tutti_calib_machine *machine,
                     size_t index, struct tutti_calib_use *ret);

/* What protocols cost on the machine, for struct tutti_ask. */
struct tutti_calibrated {
    struct tutti_protocol protocols[TUTTI_PROTOCOLS];
    /* What it was made of, for people: "Tutti 2026-11; h100 nvswitch ib: 24 values of fit, 6 of
     * nccl, 6 of 30 for more general classes". Cut where it is too long. */
    char text[256];
    uint32_t value_count;   /* parameters found that the machine asks for ... */
    uint32_t general_count; /* ... of these under more general classes */
    uint32_t lower_count;   /* ... and in layers under the first */
};
/* What layers[0] has no value for, under whatever class, is looked for in layers[1], and so on;
 * layers are TUTTI_CALIB_LAYERS_MAX at most, none of them NULL. */
enum { TUTTI_CALIB_LAYERS_MAX = 3 };
struct tutti_calibrated tutti_calib_compose(const struct tutti_calib *const layers[], size_t count,
                                            const struct tutti_calib_machine *machine);

/* `known` with the constants that the layers have values for, of each the first layer's; returns
 * how many. What none has a value for stays as it is. */
size_t tutti_calib_framework(const struct tutti_calib *const layers[], size_t count,
                             const struct tutti_framework *known, struct tutti_framework *ret);

/* By those that were compiled in, the fitted one over NCCL's: what the command goes by unless told
 * otherwise. -TUTTI_ENOMEM. */
int tutti_calibrated_for(const struct tutti_topo *topo, struct tutti_calibrated *ret,
                         struct tutti_err *err);

TUTTI_API_END

#endif
