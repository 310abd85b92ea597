/* Options that several commands have, written once; rows of an option table. */
#ifndef TUTTI_TOOLS_SHARED_OPTIONS_H
#define TUTTI_TOOLS_SHARED_OPTIONS_H

#include "tools/options.h"

#define TUTTI_OPTION_FORMAT                                                                 \
    {                                                                                       \
        .name = "format", .type = TUTTI_OPTION_CHOICE, .value = "table|json|csv",           \
        .standard = "table", .help = "how to print the results; JSON is a stable interface" \
    }

#define TUTTI_OPTION_NODES                                                                    \
    {                                                                                         \
        .name = "nodes", .type = TUTTI_OPTION_COUNT, .value = "N", .standard = "1", .min = 1, \
        .max = 65536, .help = "join N copies of a one-host machine by a non-blocking network" \
    }

#define TUTTI_OPTION_COLLECTIVE                                                               \
    {                                                                                         \
        .letter = 'c', .name = "collective", .type = TUTTI_OPTION_TEXT, .value = "NAME",      \
        .standard = "allreduce",                                                              \
        .help = "allreduce, reducescatter, allgather, broadcast, reduce, alltoall, sendrecv " \
                "or barrier"                                                                  \
    }

#define TUTTI_OPTION_DTYPE                                                                        \
    {                                                                                             \
        .letter = 'd', .name = "datatype", .type = TUTTI_OPTION_TEXT, .value = "NAME",            \
        .standard = "float", .help = "float, double, half, bfloat16, int32, int64, int8 or uint8" \
    }

#define TUTTI_OPTION_OP                                                          \
    {                                                                            \
        .letter = 'o', .name = "op", .type = TUTTI_OPTION_TEXT, .value = "NAME", \
        .standard = "sum", .help = "sum, prod, min, max or avg"                  \
    }

#define TUTTI_OPTION_ROOT                                                                        \
    {                                                                                            \
        .letter = 'r', .name = "root", .type = TUTTI_OPTION_COUNT, .value = "RANK",              \
        .standard = "0", .min = 0, .max = UINT32_MAX - 1, .help = "root of broadcast and reduce" \
    }

#endif
