/* The option --perturb: how it is read, and how what it came to is echoed. */
#ifndef TUTTI_TOOLS_CLI_PERTURB_H
#define TUTTI_TOOLS_CLI_PERTURB_H

#include <stdio.h>

#include "tools/cli/json.h"
#include "tools/options.h"
#include "topo/perturb.h"

#define TUTTI_OPTION_PERTURB                                                                 \
    {                                                                                        \
        .name = "perturb", .type = TUTTI_OPTION_TEXT, .value = "WHAT=VALUE[,WHAT=VALUE]",    \
        .help = "make links slow, latencies unequal or ranks late: slow-link=, slow-node=, " \
                "latency=, rates=, ecmp=, start=; see above"                                 \
    }

/* For commands that draw nothing else. */
#define TUTTI_OPTION_PERTURB_SEED                                                             \
    {                                                                                         \
        .name = "seed", .type = TUTTI_OPTION_COUNT, .value = "N", .standard = "42", .min = 0, \
        .max = UINT64_MAX, .help = "of what --perturb draws: the same seed, the same machine" \
    }

/* Paragraphs for the texts of commands. */
#define TUTTI_PERTURB_TEXT                                                                         \
    "\n\n--perturb asks what if the machine is not as it should be: one or several of the "        \
    "following, separated by commas. A cable is all links between two nodes, both ways."           \
    "\n\nslow-link=A-B:F: the cable between nodes A and B ('tutti topo show SPEC --links' names "  \
    "them) carries 1/F of its rate. slow-link=N:F: so do N cables drawn at random; "               \
    "slow-link=N%:F: N % of all, one at least."                                                    \
    "\n\nslow-node=NAME:F: every link inside, out of and into a host (host0, host1, ...) or a "    \
    "node carries 1/F of its rate. slow-node=N:F and slow-node=N%:F: those of N hosts, or N % of " \
    "the hosts, drawn at random, or of devices where the machine has no hosts."                    \
    "\n\nlatency=LOW..HIGH: the latency of each cable is multiplied by a factor drawn uniformly "  \
    "from LOW to HIGH. rates=F/F/F: the rate of each cable is multiplied by one of the factors, "  \
    "drawn at random."                                                                             \
    "\n\necmp=hash: where there are several spines, each flow, from NIC to NIC, takes one that "   \
    "is "                                                                                          \
    "drawn for it, as by the hashes of switches (ECMP), so that some are crowded and others "      \
    "idle. "                                                                                       \
    "Without it flows are spread evenly, as adaptive routing comes close to."
#define TUTTI_PERTURB_START_TEXT                                                                \
    "\n\nstart=TIME: each rank begins at a time drawn uniformly from 0 to TIME. The time that " \
    "is printed is from 0 to the end of the last rank."
#define TUTTI_PERTURB_RULES_TEXT                                                                   \
    "\n\nWhat is drawn hangs on --seed and on the two nodes of the cable, the host or the "        \
    "rank, and on nothing else that is perturbed. Routes change by ecmp= alone; bounds are those " \
    "of the perturbed machine."
#define TUTTI_PERTURB_NULL_TEXT                                                                    \
    " 'unperturbed' is what it takes if nothing changes, on the machine as it should be, and 'x' " \
    "how many times that the perturbed one takes."

#define TUTTI_PERTURB_BOUND_TEXT                                                               \
    " 'unperturbed' is the bound of the machine as it should be, and 'x' how many times that " \
    "the perturbed one's is."

/* Reads the option. `starts`: start= is accepted, too. */
int tutti_perturb_read(const struct tutti_args *args, bool starts, struct tutti_perturb *ret,
                       struct tutti_err *err);

/* Perturbs, with the option's name before a message. */
int tutti_perturb_machine(struct tutti_topo *topo, struct tutti_perturb *perturb, uint64_t seed,
                          struct tutti_err *err);

/* All items with commas and the seed, "slow-link=1:2,latency=1..1.2 (seed 42)", from malloc; NULL
 * when memory ran out. */
char *tutti_perturb_text(const struct tutti_perturb *perturb, uint64_t seed);

/* Nothing where there are no items: the line of '#' that begins with `label`, and the member
 * "perturb" of an open object. */
void tutti_perturb_print(const struct tutti_perturb *perturb, uint64_t seed, const char *label,
                         FILE *out);
void tutti_perturb_json(const struct tutti_perturb *perturb, uint64_t seed,
                        struct tutti_json *json);

/* Columns that stand at the end of a table if there are items, and their values. */
enum { TUTTI_PERTURB_COLUMNS = 3 };
#define TUTTI_PERTURB_TABLE_COLUMNS                             \
    {"unperturbed_us", "unperturbed", "us", TUTTI_CELL_NUMBER}, \
        {"times_unperturbed", "x", "", TUTTI_CELL_NUMBER},      \
    {                                                           \
        "perturb", NULL, "", TUTTI_CELL_TEXT                    \
    }

#endif
