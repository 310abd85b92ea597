/* Goodput as commands are asked for it and print it: what a training of days comes to with
 * failures, checkpoints, restarts and spares (sim/long_run.h). */
#ifndef TUTTI_TOOLS_GOODPUT_GOODPUT_H
#define TUTTI_TOOLS_GOODPUT_GOODPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/footprint.h"
#include "sim/long_run.h"
#include "sim/prices.h"
#include "tools/cli/json.h"
#include "tools/options.h"

struct tutti_accelerator;
struct tutti_err;

/* Rows of an option table; whoever has them has "save-rate", "save-secs" and "seed" as well. */
#define TUTTI_OPTIONS_GOODPUT                                                                      \
    {.name = "days",                                                                               \
     .type = TUTTI_OPTION_REAL,                                                                    \
     .value = "N",                                                                                 \
     .min = 0,                                                                                     \
     .max = 36500,                                                                                 \
     .help = "simulated: what failures, checkpoints, restarts and missing spares leave of so "     \
             "many days (if not given: of all steps), expected and in runs from --seed on, and "   \
             "what would help; also with --mtbf or --failures"},                                   \
        {.name = "mtbf",                                                                           \
         .type = TUTTI_OPTION_TEXT,                                                                \
         .value = "TIME",                                                                          \
         .help = "of one device: mean time between failures, 50000h or 6y; more than one cause: "  \
                 "--failures"},                                                                    \
        {.name = "restart",                                                                        \
         .type = TUTTI_OPTION_TEXT,                                                                \
         .value = "TIME",                                                                          \
         .help = "simulated: from a failure that is known until processes have met again (if not " \
                 "given: "                                                                         \
                 "10min)"},                                                                        \
        {.name = "spares",                                                                         \
         .type = TUTTI_OPTION_COUNT,                                                               \
         .value = "N",                                                                             \
         .min = 0,                                                                                 \
         .max = 1 << 20,                                                                           \
         .help = "hosts that stand by for those that are repaired (if not given: there is always " \
                 "one)"},                                                                          \
    {                                                                                              \
        .name = "failures", .type = TUTTI_OPTION_TEXT, .value = "WHAT=VALUE[,WHAT=VALUE]",         \
        .help = "mean times between interruptions: device=TIME of one device; host=, network=, "   \
                "preempt= of one host; software=, planned= of the whole training; or llama3: a "   \
                "device as often as in Llama 3's 54 days (what is taken if nothing is said). "     \
                "What they cost: detect=TIME until one is known, notice=TIME before a "            \
                "preemption, repair=TIME until a host is back (1d), return=TIME until one is "     \
                "given after a preemption, swap=TIME for a spare to come in, cold=N spares that "  \
                "are started first in cold-swap=TIME, restart-device=TIME more for each device, "  \
                "least=N devices to go on with where there is no spare. Checkpoints each "         \
                "--save-secs (if not given: best): save=sync|async|memory, async: copied to the "  \
                "host at copy=RATE a device (15.75 GB/s, PCIe 3) and written beside training, "    \
                "memory: kept there as "                                                           \
                "well, for who was not lost, and one of storage=N written; device-rate=RATE that " \
                "a device writes at most. runs=N (100). TIME in s, min, h, d or y"                 \
    }

#define TUTTI_OPTIONS_GOODPUT_SAVING                                                              \
    {.name = "save-secs",                                                                         \
     .type = TUTTI_OPTION_REAL,                                                                   \
     .value = "S",                                                                                \
     .min = 1,                                                                                    \
     .max = 100000000,                                                                            \
     .help = "seconds of training between checkpoints (if not given: those that are best)"},      \
        {.name = "save-rate",                                                                     \
         .type = TUTTI_OPTION_RATE,                                                               \
         .value = "RATE",                                                                         \
         .help = "of the storage that checkpoints are written to and read from (if not given: 1 " \
                 "GB/s a host)"},                                                                 \
    {                                                                                             \
        .name = "seed", .type = TUTTI_OPTION_COUNT, .value = "N", .standard = "1", .min = 0,      \
        .max = UINT64_MAX, .help = "of failures that are drawn"                                   \
    }

enum {
    TUTTI_GOODPUT_DEVICE,
    TUTTI_GOODPUT_HOST,
    TUTTI_GOODPUT_NETWORK,
    TUTTI_GOODPUT_SOFTWARE,
    TUTTI_GOODPUT_PLANNED,
    TUTTI_GOODPUT_PREEMPT,
    TUTTI_GOODPUT_CAUSE_COUNT
};

/* What was typed. Of a machine nothing is known yet; 0: not said, unless it says otherwise. */
struct tutti_goodput_question {
    bool asked;
    double days;
    double mean_s[TUTTI_GOODPUT_CAUSE_COUNT]; /* of what the options say they are of */
    bool llama3;
    double restart_s;
    double restart_device_s;
    double detect_s;
    double notice_s;
    double repair_s;
    double return_s;
    double swap_s;
    double cold_swap_s;
    bool spares_said;
    uint32_t spares;
    uint32_t cold_spares;
    uint32_t least_devices;
    bool async;
    bool memory;
    uint32_t storage_every;
    uint64_t copy_bytes_per_s;
    uint64_t device_bytes_per_s;
    uint64_t save_bytes_per_s;
    double every_s;
    uint32_t runs;
    uint64_t seed;
    bool restart_said;
    bool repair_said;
};

/* -TUTTI_EINVAL in one line. Nothing is asked without --days, --mtbf or --failures. --restart and
 * --spares alone are refused, and a training of no length: neither --days nor, as `ends` says,
 * steps. */
int tutti_goodput_read(const struct tutti_args *args, bool ends, struct tutti_goodput_question *ret,
                       struct tutti_err *err);
/* Where there is nothing to ask it of: -TUTTI_EINVAL "option '--days' ...: `why`". */
int tutti_goodput_refuse(const struct tutti_args *args, const char *why, struct tutti_err *err);

/* What is trained. */
struct tutti_goodput_job {
    tutti_ps step_ps;
    uint64_t steps;           /* of the whole training; 0: as many as --days have room for */
    uint64_t tokens;          /* of a step; 0: none */
    uint64_t state_bytes;     /* of a checkpoint, all devices together */
    uint32_t device_count;    /* all that one step has */
    uint32_t host_devices;    /* of a host */
    uint32_t replica_devices; /* of a replica */
    const struct tutti_accelerator *device; /* NULL: no price is known */
    const struct tutti_prices *prices;      /* likewise */
};

enum { TUTTI_GOODPUT_TRIED = 7 };

struct tutti_goodput_tried {
    const char *what; /* "best", "Young", "four times as often" */
    tutti_ps every_ps;
    double goodput;
};

struct tutti_goodput_helps {
    const char *what; /* "restarts twice as quick" */
    double goodput;
};

struct tutti_goodput_answer {
    struct tutti_goodput_job job;
    struct tutti_failure_cause causes[TUTTI_GOODPUT_CAUSE_COUNT];
    struct tutti_long_run run;
    struct tutti_long_run_times expected;
    double goodput[3]; /* p10, p50, p90 of the runs */
    double days[3];    /* to the end, or as asked */
    double interruptions[3];
    uint32_t runs; /* 0: of too many checkpoints to be played; then there are no percentiles */
    uint32_t runs_within; /* of a training of some steps: that end within --days */
    struct tutti_goodput_tried tried[TUTTI_GOODPUT_TRIED];
    uint32_t tried_count;
    struct tutti_goodput_helps helps[TUTTI_GOODPUT_TRIED];
    uint32_t helps_count;
    tutti_ps restart_for_90; /* the longest with which 90 % are goodput; -1: none */
    uint64_t steps_done;     /* expected */
    struct tutti_cost cost;  /* of the devices and of the spares that stand by, that long */
    bool save_assumed;
    bool copy_assumed;
};

/* Weights at full precision, and what the optimizer keeps of each. */
uint64_t tutti_goodput_state_bytes(uint64_t parameters, enum tutti_optimizer optimizer);

/* Nothing of the answer may be moved. */
int tutti_goodput_ask(const struct tutti_goodput_question *question,
                      const struct tutti_goodput_job *job, struct tutti_goodput_answer *ret,
                      struct tutti_err *err);
/* Lines for people, each beginning with '#'; an object "goodput". */
void tutti_goodput_print(const struct tutti_goodput_question *question,
                         const struct tutti_goodput_answer *answer, FILE *out);
void tutti_goodput_json(const struct tutti_goodput_question *question,
                        const struct tutti_goodput_answer *answer, struct tutti_json *json);

#endif
