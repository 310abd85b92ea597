/* Where the `schedule` commands take their schedule from: a file, or a generator by name. */
#ifndef TUTTI_TOOLS_SCHEDULE_SCHEDULE_SOURCE_H
#define TUTTI_TOOLS_SCHEDULE_SCHEDULE_SOURCE_H

#include "runtime/schedule.h"
#include "tools/cli/own.h"
#include "tools/cli/shared_options.h"
#include "tools/options.h"

/* Rows of an option table. */
#define TUTTI_OPTIONS_SCHEDULE_SOURCE                                                            \
    TUTTI_OPTION_COLLECTIVE,                                                                     \
        {.letter = 'a',                                                                          \
         .name = "algorithm",                                                                    \
         .type = TUTTI_OPTION_TEXT,                                                              \
         .value = "NAME",                                                                        \
         .standard = "ring",                                                                     \
         .help = "algorithm that writes the schedule, by name or as a plugin (FILE.so)"},        \
        {.letter = 'g',                                                                          \
         .name = "ranks",                                                                        \
         .type = TUTTI_OPTION_COUNT,                                                             \
         .value = "N",                                                                           \
         .min = 1,                                                                               \
         .max = UINT32_MAX - 1,                                                                  \
         .help = "number of ranks (if not given: what --levels or --dims multiply to)"},         \
        {.letter = 'b',                                                                          \
         .name = "bytes",                                                                        \
         .type = TUTTI_OPTION_SIZE,                                                              \
         .value = "SIZE",                                                                        \
         .standard = "1K",                                                                       \
         .help = "size of the data as nccl-tests counts it: 12345, 4K, 16M"},                    \
        TUTTI_OPTION_DTYPE, TUTTI_OPTION_OP, TUTTI_OPTION_ROOT,                                  \
        {.name = "levels",                                                                       \
         .type = TUTTI_OPTION_TEXT,                                                              \
         .value = "NxN",                                                                         \
         .help = "ranks of a group, groups of a larger group, ...: 8x4 is four hosts of eight"}, \
        {.name = "dims",                                                                         \
         .type = TUTTI_OPTION_TEXT,                                                              \
         .value = "NxN",                                                                         \
         .help = "a torus: 4x4x8; axes of more than two ranks are rings"},                       \
        {.name = "channels",                                                                     \
         .type = TUTTI_OPTION_COUNT,                                                             \
         .value = "N",                                                                           \
         .standard = "1",                                                                        \
         .min = 1,                                                                               \
         .max = TUTTI_LANES_MAX,                                                                 \
         .help = "parallel lanes that share the data"},                                          \
        {.name = "chunk",                                                                        \
         .type = TUTTI_OPTION_SIZE,                                                              \
         .value = "SIZE",                                                                        \
         .help = "grain of pipelining (if not given: the algorithm's own)"},                     \
        {.name = "slices",                                                                       \
         .type = TUTTI_OPTION_COUNT,                                                             \
         .value = "N",                                                                           \
         .standard = "1",                                                                        \
         .min = 1,                                                                               \
         .max = 4096,                                                                            \
         .help = "messages that a chunk is cut into"},                                           \
    {                                                                                            \
        .name = "slots", .type = TUTTI_OPTION_COUNT, .value = "N", .standard = "8", .min = 1,    \
        .max = 1 << 20, .help = "messages in flight on a connection"                             \
    }

/* What --help says about both ways to name a schedule. */
#define TUTTI_SCHEDULE_SOURCE_TEXT                                                               \
    "The schedule comes from FILE, which holds our text form ('-' is stdin), or, without FILE, " \
    "from an algorithm: -c, -a, -g and -b say which, for how many ranks and how much data. "

/* Reads or generates it; *ret is the caller's, and so is *ret_own, which ends after it: the plugin
 * that may have made it. Messages name the file, or the algorithm. */
int tutti_schedule_load(const struct tutti_args *args, struct tutti_own *ret_own,
                        struct tutti_schedule **ret, struct tutti_err *err);

/* Of a file ('-' is stdin). */
int tutti_schedule_load_file(const char *file, struct tutti_schedule **ret, struct tutti_err *err);

/* Puts the file's or the schedule's name before a message about it. */
int tutti_schedule_wrap(const struct tutti_args *args, const struct tutti_schedule *schedule,
                        int status, struct tutti_err *err);

/* Refuses a schedule of more steps than are looked at one by one in reasonable time. */
int tutti_schedule_walkable(const struct tutti_schedule *schedule, struct tutti_err *err);

#endif
