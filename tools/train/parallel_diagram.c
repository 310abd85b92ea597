/* A pipeline as text: what each stage does when, the whole step and its begin enlarged; and what
 * stages take. See parallel.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/train/parallel.h"

enum { CELLS = 84, LABEL_BYTES = 16 };

/* Of a column, below which a task is not in it. */
static const double LEAST = 0.02;

static const char letters[TUTTI_TASK_COUNT] = {
    [TUTTI_TASK_INPUT] = 'I',   [TUTTI_TASK_FORWARD] = 'F',   [TUTTI_TASK_BACKWARD] = 'B',
    [TUTTI_TASK_WEIGHTS] = 'W', [TUTTI_TASK_GRADIENTS] = 'G', [TUTTI_TASK_OPTIMIZER] = 'O',
    [TUTTI_TASK_GATHER] = 'A'};

static double ms(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_MS;
}

static bool is_pass(const struct tutti_parallel_note *task)
{
    return task->task == TUTTI_TASK_FORWARD || task->task == TUTTI_TASK_BACKWARD ||
           task->task == TUTTI_TASK_WEIGHTS;
}

/* Tasks of a device: from `first` to before the one returned. */
static size_t find_device(const struct tutti_train_parallel_watch *w, uint32_t device,
                          size_t *ret_first)
{
    size_t bounds[2];

    for (uint32_t k = 0; k < 2; k++) {
        size_t low = 0;
        size_t high = w->count;

        while (low < high) {
            const size_t middle = low + (high - low) / 2;

            if (w->tasks[middle].device < device + k)
                low = middle + 1;
            else
                high = middle;
        }
        bounds[k] = low;
    }
    *ret_first = bounds[0];
    return bounds[1];
}

static void print_row(const struct tutti_train_parallel_watch *w, uint32_t device,
                      const char row[CELLS + 1], FILE *out)
{
    const uint32_t last_first = w->cut.pipeline - TUTTI_TRAIN_STAGES_SHOWN;

    if (device > 0 && device == last_first &&
        !tutti_train_parallel_is_shown(device - 1, w->cut.pipeline))
        fprintf(out, "  ... %u stages between\n", last_first - TUTTI_TRAIN_STAGES_SHOWN);
    fprintf(out, "  stage %-4u %s\n", device, row);
}

/* ---- the whole step -------------------------------------------------------------------------- */

/* Tasks that are shorter than a column stand in it in turn: of those that have a part in it the one
 * that has had the least of the row for its time. Behind the kinds of tasks comes being idle. */
static void fill_bar(const struct tutti_train_parallel_watch *w, uint32_t device, double cell_ps,
                     char row[CELLS + 1])
{
    enum { IDLE = TUTTI_TASK_COUNT, KINDS };
    double filled[CELLS][KINDS] = {{0}};
    double owed[KINDS] = {0};
    size_t i;
    const size_t end_index = find_device(w, device, &i);

    for (int c = 0; c < CELLS; c++)
        filled[c][IDLE] = 1;
    for (; i < end_index; i++) {
        const struct tutti_parallel_note *task = &w->tasks[i];
        const double begin = (double)task->begin_ps / cell_ps;
        const double end = (double)task->end_ps / cell_ps;

        for (int c = (int)begin; c < CELLS && c < end; c++) {
            const double part = fmin(end, c + 1) - fmax(begin, c);

            filled[c][task->task] += part;
            filled[c][IDLE] -= part;
        }
    }
    for (int c = 0; c < CELLS; c++) {
        int most = -1;

        for (int k = 0; k < KINDS; k++) {
            owed[k] += filled[c][k];
            if (filled[c][k] > LEAST && (most < 0 || owed[k] > owed[most]))
                most = k;
        }
        owed[most] -= 1;
        row[c] = most == IDLE ? '.' : letters[most];
    }
    row[CELLS] = '\0';
}

static void print_whole(const struct tutti_train_parallel_watch *w, FILE *out)
{
    const tutti_ps end_ps = w->end_ps;
    char number[TUTTI_NUMBER_TEXT_BYTES], cell[TUTTI_NUMBER_TEXT_BYTES];

    fprintf(out, "# the pipeline, %s ms; a column is %s ms\n",
            tutti_number_text(ms(end_ps), number), tutti_number_text(ms(end_ps) / CELLS, cell));
    fprintf(out,
            "# Forward, Backward, gradients of Weights, Gradients reduced, Optimizer, All-gather "
            "of weights, Input; dots: idle; what is shorter than a column: by its share\n");
    for (uint32_t device = 0; device < w->cut.pipeline; device++) {
        char row[CELLS + 1];

        if (!tutti_train_parallel_is_shown(device, w->cut.pipeline))
            continue;
        fill_bar(w, device, (double)end_ps / CELLS, row);
        print_row(w, device, row, out);
    }
}

/* ---- its begin, enlarged --------------------------------------------------------------------- */

/* "F3", with several chunks "F3b" of the second. */
static int label_text(const struct tutti_train_parallel_watch *w,
                      const struct tutti_parallel_note *task, char buf[LABEL_BYTES])
{
    if (!is_pass(task))
        return snprintf(buf, LABEL_BYTES, "%c", letters[task->task]);
    if (w->cut.virtual_stages < 2)
        return snprintf(buf, LABEL_BYTES, "%c%u", letters[task->task], task->micro_batch);
    return snprintf(buf, LABEL_BYTES, "%c%u%c", letters[task->task], task->micro_batch,
                    (char)('a' + task->chunk % 26));
}

/* Time of a column, such that each label that begins in so many of them has room. */
static double choose_cell(const struct tutti_train_parallel_watch *w)
{
    double cell_ps = 0;

    for (int length = 2; length < LABEL_BYTES; length++) {
        double shortest_ps = (double)w->end_ps;
        int longest = 0;

        for (size_t i = 0; i < w->count; i++) {
            const double takes_ps = (double)(w->tasks[i].end_ps - w->tasks[i].begin_ps);

            if (is_pass(&w->tasks[i]) && takes_ps > 0)
                shortest_ps = fmin(shortest_ps, takes_ps);
        }
        cell_ps = shortest_ps / length;
        for (size_t i = 0; i < w->count; i++) {
            char label[LABEL_BYTES];

            if ((double)w->tasks[i].begin_ps < cell_ps * CELLS) {
                const int bytes = label_text(w, &w->tasks[i], label);

                longest = bytes > longest ? bytes : longest;
            }
        }
        if (longest <= length)
            break;
    }
    return cell_ps;
}

static void fill_row(const struct tutti_train_parallel_watch *w, uint32_t device, double cell_ps,
                     char row[CELLS + 1])
{
    size_t i;
    const size_t end_index = find_device(w, device, &i);

    memset(row, '.', CELLS);
    row[CELLS] = '\0';
    for (; i < end_index; i++) {
        const struct tutti_parallel_note *task = &w->tasks[i];
        const double begin = round((double)task->begin_ps / cell_ps);
        const double end = round((double)task->end_ps / cell_ps);
        char label[LABEL_BYTES];
        int bytes;

        if (begin >= CELLS)
            continue;
        bytes = label_text(w, task, label);
        for (int c = (int)begin; c < CELLS && c < end; c++)
            row[c] = (char)(c - (int)begin < bytes ? label[c - (int)begin] : '-');
    }
}

static void print_begin(const struct tutti_train_parallel_watch *w, double cell_ps, bool whole,
                        FILE *out)
{
    char number[TUTTI_NUMBER_TEXT_BYTES], cell[TUTTI_NUMBER_TEXT_BYTES];

    if (whole)
        fprintf(out, "# the pipeline, %s ms", tutti_number_text(ms(w->end_ps), number));
    else
        fprintf(out, "# its first %s ms",
                tutti_number_text(cell_ps * CELLS / (double)TUTTI_PS_PER_MS, number));
    fprintf(out,
            "; a column is %s ms. F3: forward of micro-batch 3; B backward, W gradients of "
            "weights%s; dots: idle\n",
            tutti_number_text(cell_ps / (double)TUTTI_PS_PER_MS, cell),
            w->cut.virtual_stages > 1 ? "; F3b: of the device's second chunk" : "");
    for (uint32_t device = 0; device < w->cut.pipeline; device++) {
        char row[CELLS + 1];

        if (!tutti_train_parallel_is_shown(device, w->cut.pipeline))
            continue;
        fill_row(w, device, cell_ps, row);
        print_row(w, device, row, out);
    }
}

/* ---- what stages take ------------------------------------------------------------------------ */

static int add_stage(struct tutti_table *table, const struct tutti_train_parallel_watch *w,
                     uint32_t device)
{
    tutti_ps sums[TUTTI_TASK_COUNT] = {0};
    tutti_ps busy_ps = 0;
    const double end_ps = (double)w->end_ps;
    const double count = w->cut.micro_batches;
    size_t i;
    const size_t end_index = find_device(w, device, &i);

    for (; i < end_index; i++) {
        sums[w->tasks[i].task] += w->tasks[i].end_ps - w->tasks[i].begin_ps;
        busy_ps += w->tasks[i].end_ps - w->tasks[i].begin_ps;
    }
    return tutti_table_add(table, (uint64_t)device, ms(sums[TUTTI_TASK_FORWARD]) / count,
                           ms(sums[TUTTI_TASK_BACKWARD]) / count,
                           ms(sums[TUTTI_TASK_WEIGHTS]) / count, ms(sums[TUTTI_TASK_GRADIENTS]),
                           ms(sums[TUTTI_TASK_OPTIMIZER]), ms(sums[TUTTI_TASK_GATHER]),
                           100 * (1 - (double)busy_ps / end_ps));
}

int tutti_train_parallel_stages(const struct tutti_train_parallel_watch *w, bool whole,
                                struct tutti_table **ret, struct tutti_err *err)
{
    static const struct tutti_column columns[] = {
        {"stage", "stage", "", TUTTI_CELL_COUNT},
        {"forward_ms", "forward", "ms", TUTTI_CELL_NUMBER},
        {"backward_ms", "backward", "ms", TUTTI_CELL_NUMBER},
        {"weights_ms", "weights", "ms", TUTTI_CELL_NUMBER},
        {"gradients_ms", "gradients", "ms", TUTTI_CELL_NUMBER},
        {"optimizer_ms", "optimizer", "ms", TUTTI_CELL_NUMBER},
        {"gather_ms", "gather", "ms", TUTTI_CELL_NUMBER},
        {"idle_percent", "idle", "%", TUTTI_CELL_NUMBER},
    };
    struct tutti_table *table = tutti_table_new(columns, sizeof(columns) / sizeof(columns[0]));
    int status = table == NULL ? -TUTTI_ENOMEM : 0;

    for (uint32_t device = 0; device < w->cut.pipeline && status == 0; device++)
        if (whole || tutti_train_parallel_is_shown(device, w->cut.pipeline))
            status = add_stage(table, w, device);
    if (status == 0) {
        tutti_table_group(table, "forward_ms", "weights_ms", "of a micro-batch");
        tutti_table_group(table, "gradients_ms", "gather_ms", "of a step");
        *ret = table;
    } else {
        tutti_table_free(table);
    }
    return status < 0 ? tutti_nomem(err) : 0;
}

int tutti_train_parallel_explain(const struct tutti_train_parallel_watch *w,
                                 const struct tutti_page *page, struct tutti_err *err)
{
    const double cell_ps = choose_cell(w);
    const bool whole = cell_ps * CELLS >= (double)w->end_ps;
    struct tutti_table *stages = NULL;
    int status = tutti_train_parallel_stages(w, page->verbose, &stages, err);

    if (status < 0)
        return status;
    fputc('\n', page->out);
    if (!whole) {
        print_whole(w, page->out);
        fputc('\n', page->out);
    }
    print_begin(w, cell_ps, whole, page->out);
    fputc('\n', page->out);
    tutti_table_print(stages, page);
    tutti_table_free(stages);
    return 0;
}
