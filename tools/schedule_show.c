/* tutti schedule show: what a schedule is, what it costs, and its steps one by one. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "build.h"
#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/commands.h"
#include "tools/schedule/schedule_source.h"
#include "tools/schedule/schedule_verdict.h"

static const struct tutti_column columns[] = {
    {"rank", "rank", "", TUTTI_CELL_COUNT}, {"lane", "lane", "", TUTTI_CELL_COUNT},
    {"step", "step", "", TUTTI_CELL_COUNT}, {"kind", NULL, "", TUTTI_CELL_TEXT},
    {"peer", NULL, "", TUTTI_CELL_NUMBER},  {"bytes", NULL, "", TUTTI_CELL_COUNT},
    {"what", "what", "", TUTTI_CELL_TEXT},
};

/* What is shown: a schedule, and what is known about it. */
struct view {
    const struct tutti_schedule *schedule;
    struct tutti_price price;
    bool playable;          /* the price is known */
    struct tutti_err cause; /* why not */
    uint32_t first_rank;
    uint32_t last_rank;
    uint64_t limit; /* of steps to list */
    uint64_t left_out;
    struct tutti_table *table;
};

static const char *kind_name(unsigned kind)
{
    static const char *const names[] = {"?", "SEND", "RECV", "REDUCE", "COPY", "COMPUTE", "CALL"};

    return names[kind < sizeof(names) / sizeof(names[0]) ? kind : 0];
}

static int list_lane(struct view *view, uint32_t rank, uint32_t lane)
{
    const struct tutti_step *step;
    struct tutti_cursor cursor;
    char text[TUTTI_STEP_TEXT_BYTES];
    int status = 0;

    tutti_cursor_open(&cursor, view->schedule, rank, lane);
    while (status == 0 && (step = tutti_cursor_next(&cursor)) != NULL) {
        bool talks = step->kind == TUTTI_SEND || step->kind == TUTTI_RECV;
        bool moves = talks || step->kind == TUTTI_REDUCE || step->kind == TUTTI_COPY;

        if (tutti_table_rows(view->table) == view->limit) {
            view->left_out++;
            continue;
        }
        status = tutti_table_add(view->table, (uint64_t)rank, (uint64_t)lane, cursor.step_index - 1,
                                 kind_name(step->kind), talks ? (double)step->peer : NAN,
                                 moves ? step->bytes : 0, tutti_step_text(step, text));
    }
    return status;
}

static int list(struct view *view)
{
    int status = 0;

    for (uint32_t rank = view->first_rank; rank <= view->last_rank && status == 0; rank++)
        for (uint32_t lane = 0; lane < view->schedule->lane_count && status == 0; lane++)
            status = list_lane(view, rank, lane);
    return status;
}

/* Axes and work, which steps name by number. */
static void print_tables(const struct tutti_schedule *s, FILE *out)
{
    for (uint32_t i = 0; i < s->axis_count; i++)
        fprintf(out, "# axis %u is %s: %u groups of %u ranks, %u apart\n", i + 1, s->axes[i].name,
                tutti_axis_group_count(&s->axes[i]), s->axes[i].size, s->axes[i].stride);
    for (uint32_t i = 0; i < s->work_count; i++) {
        const struct tutti_work *work = &s->work[i];

        fprintf(out, "# work %u is %s (%s): reads %u regions, writes %u\n", i, work->name,
                tutti_work_kind_name(work->kind), work->read_count, work->write_count);
    }
}

static void print_table(const struct view *view, const struct tutti_page *page)
{
    FILE *out = page->out;
    const struct tutti_schedule *s = view->schedule;
    const struct tutti_price *price = &view->price;
    char contract[TUTTI_CONTRACT_TEXT_BYTES];

    fprintf(out, "# schedule %s: %s", s->name, tutti_contract_text(&s->contract, contract));
    if (s->chunk_count > 0)
        fprintf(out, ", in %" PRIu64 " chunk%s of %" PRIu64 " B", s->chunk_count,
                s->chunk_count == 1 ? "" : "s", tutti_schedule_chunk_bytes(s));
    fputc('\n', out);
    fprintf(out,
            "# ranks %u, lanes %u, slots %u; a rank has in %" PRIu64 " B, out %" PRIu64
            " B, scratch %" PRIu64 " B",
            s->rank_count, s->lane_count, s->slot_count, s->in_bytes, s->out_bytes,
            s->scratch_bytes);
    if (s->state_bytes > 0)
        fprintf(out, ", state %" PRIu64 " B", s->state_bytes);
    fputc('\n', out);
    print_tables(s, out);
    for (uint32_t i = 0; i < s->callee_count; i++)
        fprintf(out, "# callee %u is %s: %s\n", i, s->callees[i]->name,
                tutti_contract_text(&s->callees[i]->contract, contract));
    if (view->playable)
        fprintf(out,
                "# %" PRIu64 " steps, %" PRIu64 " messages of %" PRIu64 " B in all, %" PRIu64
                " one after another\n"
                "# a rank sends up to %" PRIu64 " B, reduces up to %" PRIu64
                " B, copies up to %" PRIu64 " B\n",
                price->step_count, price->send_count, price->sent_bytes, price->round_count,
                price->sent_bytes_max, price->reduced_bytes_max, price->copied_bytes_max);
    else
        fprintf(out, "# cannot be played: %s\n", view->cause.text);
    tutti_table_print(view->table, page);
    if (view->left_out > 0)
        fprintf(out, "# and %" PRIu64 " steps more (--limit, --rank)\n", view->left_out);
}

static void print_json(const struct view *view, struct tutti_sink *sink)
{
    const struct tutti_schedule *s = view->schedule;
    struct tutti_json json = {.out = sink->out};

    tutti_json_open(&json, NULL, '{');
    tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
    tutti_json_open(&json, "schedule", '{');
    tutti_json_text(&json, "name", s->name);
    tutti_json_text(&json, "collective", tutti_collective_name(s->contract.collective));
    tutti_json_text(&json, "datatype", tutti_dtype_name(s->contract.dtype));
    tutti_json_text(&json, "op", tutti_op_name(s->contract.op));
    tutti_json_count(&json, "count", s->contract.count);
    tutti_json_count(&json, "root", s->contract.root);
    tutti_json_count(&json, "ranks", s->rank_count);
    tutti_json_count(&json, "lanes", s->lane_count);
    tutti_json_count(&json, "slots", s->slot_count);
    tutti_json_count(&json, "chunks", s->chunk_count);
    tutti_json_count(&json, "callees", s->callee_count);
    tutti_json_count(&json, "in_bytes", s->in_bytes);
    tutti_json_count(&json, "out_bytes", s->out_bytes);
    tutti_json_count(&json, "scratch_bytes", s->scratch_bytes);
    tutti_json_count(&json, "state_bytes", s->state_bytes);
    tutti_json_count(&json, "axes", s->axis_count);
    tutti_json_count(&json, "work", s->work_count);
    tutti_json_close(&json);
    if (view->playable) {
        tutti_json_open(&json, "price", '{');
        tutti_json_count(&json, "steps", view->price.step_count);
        tutti_json_count(&json, "messages", view->price.send_count);
        tutti_json_count(&json, "rounds", view->price.round_count);
        tutti_json_count(&json, "sent_bytes", view->price.sent_bytes);
        tutti_json_count(&json, "sent_bytes_max", view->price.sent_bytes_max);
        tutti_json_count(&json, "reduced_bytes_max", view->price.reduced_bytes_max);
        tutti_json_count(&json, "copied_bytes_max", view->price.copied_bytes_max);
        tutti_json_close(&json);
    } else {
        tutti_json_text(&json, "cannot_be_played", view->cause.text);
    }
    tutti_table_json(view->table, "steps", &json);
    tutti_json_count(&json, "steps_left_out", view->left_out);
    tutti_json_close(&json);
}

static int read_ranks(const struct tutti_args *args, struct view *view, struct tutti_err *err)
{
    uint32_t count = view->schedule->rank_count;

    view->last_rank = count - 1;
    if (!tutti_args_given(args, "rank"))
        return 0;
    view->first_rank = view->last_rank = (uint32_t)tutti_args_number(args, "rank");
    if (view->first_rank >= count)
        return tutti_fail(err, TUTTI_EINVAL, "option '--rank': no rank '%u' (0 to %u)",
                          view->first_rank, count - 1);
    return 0;
}

static int show(const struct tutti_args *args, struct view *view, struct tutti_sink *sink,
                struct tutti_err *err)
{
    struct tutti_page page;
    int status = read_ranks(args, view, err);

    if (status == 0)
        status = tutti_schedule_walkable(view->schedule, err);
    if (status < 0)
        return status;
    status = tutti_schedule_price(view->schedule, &view->price, &view->cause);
    if (status == -TUTTI_ENOMEM)
        return tutti_nomem(err);
    view->playable = status == 0;
    status = 0;
    view->table = tutti_table_new(columns, sizeof(columns) / sizeof(columns[0]));
    if (view->table == NULL || list(view) < 0)
        return tutti_nomem(err);
    if (tutti_args_is(args, "format", "json"))
        print_json(view, sink);
    else if (tutti_args_is(args, "format", "csv"))
        tutti_table_csv(view->table, sink->out);
    else
        status = tutti_page_open(&page, sink, err);
    if (status < 0 || !tutti_args_is(args, "format", "table"))
        return status;
    print_table(view, &page);
    return tutti_page_close(&page, 0, err);
}

int tutti_command_schedule_show(const struct tutti_args *args, struct tutti_sink *sink,
                                struct tutti_err *err)
{
    struct tutti_own own;
    struct tutti_schedule *schedule = NULL;
    struct view view = {.limit = tutti_args_number(args, "limit")};
    int status = tutti_schedule_load(args, &own, &schedule, err);

    if (status < 0)
        return status;
    view.schedule = schedule;
    status = tutti_schedule_wrap(args, schedule, show(args, &view, sink, err), err);
    tutti_table_free(view.table);
    tutti_schedule_free(schedule);
    tutti_own_done(&own);
    return status;
}

static const struct tutti_option options[] = {
    TUTTI_OPTIONS_SCHEDULE_SOURCE,
    {.name = "rank",
     .type = TUTTI_OPTION_COUNT,
     .value = "RANK",
     .min = 0,
     .max = UINT32_MAX - 1,
     .help = "list the steps of this rank alone"},
    {.name = "limit",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "10000",
     .min = 0,
     .max = 10000000,
     .help = "list no more steps than this; how many are left out is said"},
    TUTTI_OPTIONS_OUTPUT,
};

const struct tutti_command tutti_cli_schedule_show = {
    .name = "schedule show",
    .summary = "what a schedule is, what it costs, and its steps",
    .operands = "[FILE]",
    .operand_max = 1,
    .text = TUTTI_SCHEDULE_SOURCE_TEXT
    "Prints what it is for, its price (how many messages one after another, how many bytes the "
    "busiest rank sends, reduces and copies), and its steps by rank and lane, in program order. A "
    "lane is an in-order queue; a step starts when every earlier step of its lane has completed, "
    "except that an earlier SEND need only have started. A schedule that cannot be played is shown "
    "all the same, with the reason.",
    .examples = "tutti schedule show -c allreduce -a ring -g 3 -b 28\n"
                "tutti schedule show my.schedule --rank 2\n"
                "tutti schedule show -a torus --dims 4x4 -b 1M --format json",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_schedule_show,
};
