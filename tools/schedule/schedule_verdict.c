/* Judges a schedule and says in one line what holds of it. */
#include "tools/schedule/schedule_verdict.h"

#include <inttypes.h>
#include <stdio.h>

#include "build.h"
#include "runtime/status.h"
#include "tools/cli/output.h"

static const struct tutti_column columns[] = {
    {"schedule", "schedule", "", TUTTI_CELL_TEXT}, {"contract", "contract", "", TUTTI_CELL_TEXT},
    {"ranks", "ranks", "", TUTTI_CELL_COUNT},      {"lanes", "lanes", "", TUTTI_CELL_COUNT},
    {"steps", "steps", "", TUTTI_CELL_COUNT},      {"messages", "messages", "", TUTTI_CELL_COUNT},
    {"rounds", "rounds", "", TUTTI_CELL_COUNT},    {"ok", "ok", "", TUTTI_CELL_BOOL},
    {"holds", "holds", "", TUTTI_CELL_TEXT},
};

const char *tutti_contract_text(const struct tutti_contract *contract, char *buf)
{
    const char *name = tutti_collective_name(contract->collective);
    const char *dtype = tutti_dtype_name(contract->dtype);
    char root[32] = "";
    char op[32] = "";

    if (contract->collective == TUTTI_BROADCAST || contract->collective == TUTTI_REDUCE_TO_ROOT)
        (void)snprintf(root, sizeof(root), ", root %u", contract->root);
    if (contract->collective == TUTTI_ALLREDUCE || contract->collective == TUTTI_REDUCESCATTER ||
        contract->collective == TUTTI_REDUCE_TO_ROOT || contract->collective == TUTTI_CUSTOM)
        (void)snprintf(op, sizeof(op), ", %s", tutti_op_name(contract->op));
    if (contract->collective == TUTTI_BARRIER)
        (void)snprintf(buf, TUTTI_CONTRACT_TEXT_BYTES, "%s", name);
    else if (contract->collective == TUTTI_CUSTOM)
        (void)snprintf(buf, TUTTI_CONTRACT_TEXT_BYTES, "%s, %s%s", name, dtype, op);
    else
        (void)snprintf(buf, TUTTI_CONTRACT_TEXT_BYTES, "%s of %" PRIu64 " %s%s%s", name,
                       contract->count, dtype, op, root);
    return buf;
}

/* What the contract promises, in words; see enum tutti_collective. */
static const char *promise(const struct tutti_contract *contract, uint32_t n, char *buf,
                           size_t buf_bytes)
{
    const char *op = tutti_op_name(contract->op);

    switch (contract->collective) {
    case TUTTI_ALLREDUCE:
        (void)snprintf(buf, buf_bytes,
                       "every output byte of every rank is the %s of the inputs of all %u ranks, "
                       "each once",
                       op, n);
        break;
    case TUTTI_REDUCE_TO_ROOT:
        (void)snprintf(buf, buf_bytes,
                       "every output byte of rank %u is the %s of the inputs of all %u ranks, each "
                       "once",
                       contract->root, op, n);
        break;
    case TUTTI_REDUCESCATTER:
        (void)snprintf(buf, buf_bytes,
                       "the output of rank r is the %s of block r of the inputs of all %u ranks, "
                       "each once",
                       op, n);
        break;
    case TUTTI_BROADCAST:
        (void)snprintf(buf, buf_bytes, "the output of every rank is the input of rank %u",
                       contract->root);
        break;
    case TUTTI_ALLGATHER:
        (void)snprintf(buf, buf_bytes,
                       "block r of the output of every rank is the input of rank r, for all %u "
                       "ranks",
                       n);
        break;
    case TUTTI_ALLTOALL:
        (void)snprintf(buf, buf_bytes,
                       "block i of the output of rank j is block j of the input of rank i, for all "
                       "%u ranks",
                       n);
        break;
    case TUTTI_SENDRECV:
        (void)snprintf(buf, buf_bytes,
                       "the output of rank r + 1 is the input of rank r, for all %u "
                       "ranks, round the ring",
                       n);
        break;
    case TUTTI_CUSTOM:
        (void)snprintf(buf, buf_bytes,
                       "every call gives the %u ranks what its contract says, and all that is read "
                       "as whole is the contribution of every member of the group, once",
                       n);
        break;
    default:
        (void)snprintf(buf, buf_bytes, "none of the %u ranks ends before every rank has begun", n);
        break;
    }
    return buf;
}

static int print(const struct tutti_args *args, const struct tutti_schedule *s,
                 const struct tutti_price *price, const char *holds, struct tutti_sink *sink,
                 struct tutti_err *err)
{
    struct tutti_table *table;
    char contract[TUTTI_CONTRACT_TEXT_BYTES];

    tutti_contract_text(&s->contract, contract);
    if (tutti_args_is(args, "format", "table")) {
        fprintf(sink->out,
                "ok: %s, %s, %u %s, %u %s: %" PRIu64 " steps, %" PRIu64 " messages, %" PRIu64
                " one after another: %s\n",
                s->name, contract, s->rank_count, s->rank_count == 1 ? "rank" : "ranks",
                s->lane_count, s->lane_count == 1 ? "lane" : "lanes", price->step_count,
                price->send_count, price->round_count, holds);
        return 0;
    }
    table = tutti_table_new(columns, sizeof(columns) / sizeof(columns[0]));
    if (table == NULL ||
        tutti_table_add(table, s->name, contract, (uint64_t)s->rank_count, (uint64_t)s->lane_count,
                        price->step_count, price->send_count, price->round_count, 1, holds) < 0) {
        tutti_table_free(table);
        return tutti_nomem(err);
    }
    if (tutti_args_is(args, "format", "json")) {
        struct tutti_json json = {.out = sink->out};

        tutti_json_open(&json, NULL, '{');
        tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
        tutti_table_json(table, "results", &json);
        tutti_json_close(&json);
    } else {
        tutti_table_csv(table, sink->out);
    }
    tutti_table_free(table);
    return 0;
}

int tutti_schedule_verdict(const struct tutti_args *args,
                           int (*judge)(const struct tutti_schedule *schedule,
                                        struct tutti_err *err),
                           const char *holds, struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_own own;
    struct tutti_schedule *schedule = NULL;
    struct tutti_price price;
    char promised[256];
    int status = tutti_schedule_load(args, &own, &schedule, err);

    if (status < 0)
        return status;
    status = tutti_schedule_walkable(schedule, err);
    if (status == 0)
        status = judge(schedule, err);
    if (status == 0)
        status = tutti_schedule_price(schedule, &price, err);
    if (status == 0 && holds == NULL)
        holds = promise(&schedule->contract, schedule->rank_count, promised, sizeof(promised));
    status = tutti_schedule_wrap(args, schedule, status, err);
    if (status == 0)
        status = print(args, schedule, &price, holds, sink, err);
    tutti_schedule_free(schedule);
    tutti_own_done(&own);
    return status;
}
