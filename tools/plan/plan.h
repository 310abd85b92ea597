/* What `tutti plan` is asked, what was found, and how that is told. */
#ifndef TUTTI_TOOLS_PLAN_PLAN_H
#define TUTTI_TOOLS_PLAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/plan.h"
#include "tools/cli/calib.h"
#include "tools/goodput/goodput.h"
#include "tools/options.h"

struct tutti_sink;
struct tutti_topo;

enum { TUTTI_PLAN_SPECS_MAX = 16, TUTTI_PLAN_SIZES_MAX = 32, TUTTI_PLAN_MACHINES_MAX = 128 };

struct tutti_plan_among;

/* Nothing in it may be moved: the question points into it. */
struct tutti_plan_question {
    struct tutti_plan_ask ask;
    struct tutti_plan_space space;
    struct tutti_topo *specs[TUTTI_PLAN_SPECS_MAX]; /* as they were typed */
    uint32_t spec_count;
    struct tutti_topo *sized[TUTTI_PLAN_MACHINES_MAX]; /* NULL: one of specs */
    struct tutti_plan_machine machines[TUTTI_PLAN_MACHINES_MAX];
    uint32_t machine_spec[TUTTI_PLAN_MACHINES_MAX]; /* that a machine is of */
    uint32_t machine_count;
    struct tutti_calib_option calib;
    struct tutti_calib_choice costs[TUTTI_PLAN_SPECS_MAX];
    size_t calibrated_count;
    struct tutti_framework framework;
    struct tutti_workload *model;
    struct tutti_prices *prices;
    bool ends;                             /* how much is trained was said */
    struct tutti_goodput_question goodput; /* of the first plan */
    bool turns;                            /* asks what would change the order */
    struct tutti_plan_among *among;        /* NULL: a space is searched */
};

int tutti_plan_question_read(const struct tutti_args *args, struct tutti_plan_question *ret,
                             struct tutti_err *err);
void tutti_plan_question_done(struct tutti_plan_question *question);

/* --among: the settings of a table's rows in the place of a space. What was taken is of the
 * question: tutti_plan_among_free(). */
int tutti_plan_among_read(const struct tutti_args *args, struct tutti_plan_question *question,
                          struct tutti_err *err);
void tutti_plan_among_free(struct tutti_plan_among *among); /* NULL is a no-op */

struct tutti_plan_result {
    struct tutti_plan_answer answer;
    struct tutti_plan_turn turns[TUTTI_PLAN_TURN_COUNT];
    struct tutti_goodput_answer goodput;
};

/* With --days, --mtbf or --failures: what they leave of a training by the first plan. */
int tutti_plan_goodput_read(const struct tutti_args *args, struct tutti_plan_question *question,
                            struct tutti_err *err);
int tutti_plan_goodput_ask(const struct tutti_plan_question *question,
                           struct tutti_plan_result *result, struct tutti_err *err);

int tutti_plan_print(const struct tutti_args *args, const struct tutti_plan_question *question,
                     const struct tutti_plan_result *result, struct tutti_sink *sink,
                     struct tutti_err *err);
void tutti_plan_print_json(const struct tutti_plan_question *question,
                           const struct tutti_plan_result *result, struct tutti_sink *sink);

/* "TP8 PP16 DP128", with CP and EP where they are more than 1; behind it, if `whole`, the rest:
 * ", VP4, micro-batch 1, ZeRO-1, recompute full". */
enum { TUTTI_PLAN_TEXT_BYTES = 192 };
const char *tutti_plan_text(const struct tutti_plan_setting *plan, bool whole, char *buf);
/* " on SPEC", " on 64 devices of SPEC" where there are several machines or sizes, else "". */
const char *tutti_plan_place(const struct tutti_plan_question *question, uint32_t machine,
                             char *buf, size_t buf_bytes);

/* ---- chart.c --------------------------------------------------------------------------------- */

/* Of --plot and --svg; the chart of machines of several sizes below what was printed. */
int tutti_plan_chart_check(const struct tutti_args *args,
                           const struct tutti_plan_question *question, struct tutti_err *err);
int tutti_plan_chart(const struct tutti_args *args, const struct tutti_plan_question *question,
                     const struct tutti_plan_answer *answer, struct tutti_sink *sink,
                     struct tutti_err *err);

/* ---- why.c ----------------------------------------------------------------------------------- */

/* Lines of "#": what the first saves and pays beside the second, what would change the order. */
void tutti_plan_why(const struct tutti_plan_question *question,
                    const struct tutti_plan_result *result, FILE *out);
/* What would change the order, and to what; "" where that was not asked. */
enum { TUTTI_PLAN_TURN_BYTES = 512 };
const char *tutti_plan_turn_text(const struct tutti_plan_found *best,
                                 const struct tutti_plan_turn *turn, char *buf);
extern const char *const tutti_plan_turn_keys[TUTTI_PLAN_TURN_COUNT]; /* "less_memory" */

/* Parts of a step in the order of struct tutti_parallel_split, in words and as keys of JSON. */
enum { TUTTI_PLAN_PARTS = 11 };
void tutti_plan_parts(const struct tutti_parallel_split *split, tutti_ps ret[TUTTI_PLAN_PARTS]);
extern const char *const tutti_plan_part_words[TUTTI_PLAN_PARTS];
extern const char *const tutti_plan_part_keys[TUTTI_PLAN_PARTS];

#endif
