/* calibrate -B: measures this machine, fits, prints, writes; see calibrate_here.h. */
#include "tools/local/calibrate_here.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build.h"
#include "runtime/backend.h"
#include "runtime/group.h"
#include "runtime/nccl.h"
#include "runtime/status.h"
#include "tools/cli/files.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/local/local.h"
#include "tools/options.h"
#include "tools/run/run.h"
#include "tools/run/run_group.h"

enum { GPU_RANKS = 8 }; /* virtual ones, if not asked otherwise */

/* Of an operand of a rank there, whose data the host makes and copies: beyond it a GPU has long
 * left its cache. */
static const uint64_t gpu_bytes_max = 48 << 20;

struct here {
    struct tutti_local local;
    struct tutti_local_points points;
    struct tutti_local_fitted fitted;
};

static const struct tutti_column columns[] = {
    {"what", "schedule", "", TUTTI_CELL_TEXT},
    {"bytes", "size", "B", TUTTI_CELL_COUNT},
    {"ranks", "ranks", "", TUTTI_CELL_COUNT},
    {"measured_us", "measured", "us", TUTTI_CELL_NUMBER},
    {"fitted_us", "fitted", "us", TUTTI_CELL_NUMBER},
    {"error_percent", "error", "%", TUTTI_CELL_NUMBER},
    {"apart_ns", "apart", "ns", TUTTI_CELL_NUMBER},
};

static struct tutti_table *table_of(const struct here *here)
{
    struct tutti_table *table = tutti_table_new(columns, sizeof(columns) / sizeof(columns[0]));

    for (uint32_t i = 0; table != NULL && i < here->points.count; i++) {
        const struct tutti_local_point *p = &here->points.points[i];

        if (tutti_table_add(table, p->what, p->bytes, (uint64_t)p->rank_count, p->measured_us,
                            p->fitted_us, 100 * (p->fitted_us / p->measured_us - 1),
                            p->apart_ns) < 0) {
            tutti_table_free(table);
            return NULL;
        }
    }
    return table;
}

static void print_json(const struct here *here, const struct tutti_table *table,
                       struct tutti_sink *sink)
{
    struct tutti_json json = {.out = sink->out};

    tutti_json_open(&json, NULL, '{');
    tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
    tutti_local_json(&here->local, &json);
    tutti_table_json(table, "points", &json);
    tutti_json_count(&json, "timed_again", here->points.again_count);
    tutti_json_count(&json, "left_out", here->points.left_out_count);
    tutti_json_count(&json, "iterations", here->fitted.iteration_count);
    tutti_json_bool(&json, "converged", here->fitted.converged);
    tutti_json_number(&json, "median_abs_percent", here->fitted.median_abs_percent);
    tutti_json_number(&json, "p90_abs_percent", here->fitted.p90_abs_percent);
    tutti_json_number(&json, "worst_abs_percent", here->fitted.worst_abs_percent);
    tutti_json_close(&json);
}

static void print_text(const struct here *here, const struct tutti_table *table,
                       const struct tutti_page *page)
{
    FILE *out = page->out;

    fprintf(out,
            "# tutti %s calibrate -B %s: %" PRIu32 " rank%s, %" PRIu32
            " small schedules timed, no collective\n",
            TUTTI_BUILD_VERSION, here->local.backend, here->local.rank_count,
            here->local.rank_count == 1 ? "" : "s", here->points.count);
    tutti_local_show(&here->local, "measured", true, out);
    tutti_table_print(table, page);
    if (here->points.again_count > 0)
        fprintf(out,
                "# the processors moved: %" PRIu32 " timings were done again, %" PRIu32
                " schedules left out\n",
                here->points.again_count, here->points.left_out_count);
    fprintf(out,
            "# fit: %" PRIu32 " iterations%s; residuals: median %.1f %%, 9 of 10 within %.1f %%, "
            "worst %.1f %%\n",
            here->fitted.iteration_count, here->fitted.converged ? "" : ", not converged",
            here->fitted.median_abs_percent, here->fitted.p90_abs_percent,
            here->fitted.worst_abs_percent);
}

static int print(const struct tutti_args *args, const struct here *here, struct tutti_sink *sink,
                 struct tutti_err *err)
{
    bool people = tutti_args_is(args, "format", "table");
    struct tutti_table *table = table_of(here);
    struct tutti_page page;
    int status = 0;

    if (table == NULL)
        return tutti_nomem(err);
    if (tutti_args_is(args, "format", "csv"))
        tutti_table_csv(table, sink->out);
    else if (tutti_args_is(args, "format", "json"))
        print_json(here, table, sink);
    else
        status = tutti_page_open(&page, sink, err);
    if (status == 0 && people) {
        print_text(here, table, &page);
        status = tutti_page_close(&page, 0, err);
    }
    tutti_table_free(table);
    return status;
}

static int write_file(const struct tutti_args *args, const struct here *here,
                      struct tutti_sink *sink, struct tutti_err *err)
{
    char *text = NULL;
    int status;

    if (!tutti_args_given(args, "output"))
        return 0;
    status = tutti_local_print(&here->local, &text, err);
    if (status == 0)
        status = tutti_file_write(tutti_args_text(args, "output"), text, strlen(text), sink, err);
    free(text);
    return status;
}

/* Measures with all processes, or with threads; the first of them prints. */
static int measure(const struct tutti_args *args, const struct tutti_run_command *run,
                   const struct tutti_run_group *with, struct tutti_sink *sink,
                   struct tutti_err *err)
{
    struct tutti_local_ask ask = {
        .backend = with->backend,
        .on_gpu = run->backend->on_gpu,
        .process_count = with->group != NULL ? with->group->count : 1,
        .group = with->group,
        .rank_count = run->rank_count,
        .processor_count = tutti_run_processors(),
        .pin = run->pin,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .deadline_ps = run->perform.deadline_ps,
        .seed = 42,
        .bytes_max = run->backend->on_gpu && !tutti_args_given(args, "maxbytes")
                         ? gpu_bytes_max
                         : tutti_args_number(args, "maxbytes"),
    };
    bool speaks = with->group == NULL || with->group->index == 0;
    struct here here = {.points = {.count = 0}};
    int status = tutti_local_calibrate(&ask, &here.points, &here.local, &here.fitted, err);

    if (status == 0 && speaks)
        status = print(args, &here, sink, err);
    if (status == 0 && speaks)
        status = write_file(args, &here, sink, err);
    tutti_local_points_close(&here.points);
    return status;
}

/* If not asked otherwise. */
static int count_ranks(struct tutti_run_command *run, struct tutti_err *err)
{
    if (run->backend->alone)
        return tutti_nccl_gpu_count(&run->rank_count, err);
    run->rank_count = run->backend->on_gpu ? GPU_RANKS : 2;
    return 0;
}

int tutti_calibrate_here(const struct tutti_args *args, struct tutti_sink *sink,
                         struct tutti_err *err)
{
    struct tutti_run_command run = {
        .rank_count = (uint32_t)tutti_args_number(args, "ranks"),
        .perform = {.deadline_ps = (tutti_ps)tutti_args_number(args, "deadline")}};
    struct tutti_run_group with = {.group = NULL};
    int status = tutti_run_read_measuring(args, &run, err);

    if (status == 0)
        status = tutti_run_read_gpus(args, &run, err);
    if (status < 0)
        return status;
    if (tutti_args_operand(args, 0) != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-B' measures this machine and takes no FOLDER (one or the "
                          "other)");
    status = tutti_run_group_check(args, &run, err);
    if (status < 0)
        return status;
    if (tutti_run_is_group(&run)) {
        status = tutti_run_group_open(args, &run, &with, sink, err);
        if (status < 0 || with.group == NULL)
            return status;
    } else {
        if (run.rank_count == 0)
            status = count_ranks(&run, err);
        run.pin = tutti_args_flag(args, "pin") ||
                  (!tutti_args_flag(args, "no-pin") && run.rank_count <= tutti_run_processors());
    }
    if (status == 0 && run.backend->on_gpu && !tutti_run_is_group(&run)) {
        struct tutti_run_group alone = {.group = NULL};

        status = tutti_run_open_measuring(&run, &alone.backend, err);
        if (status == 0)
            status = measure(args, &run, &alone, sink, err);
        tutti_backend_close(alone.backend);
        return status;
    }
    if (status == 0)
        status = measure(args, &run, &with, sink, err);
    return tutti_run_group_close(&with, status, run.perform.deadline_ps, err);
}
