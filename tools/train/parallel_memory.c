/* What each stage of a pipeline holds, and whether its device has as much; see parallel.h. */
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/train/parallel.h"
#include "tools/train/print.h"

enum { TEXT_BYTES = 96, TERMS = 3 };

bool tutti_train_parallel_is_shown(uint32_t device, uint32_t count)
{
    return count <= 2 * TUTTI_TRAIN_STAGES_SHOWN || device < TUTTI_TRAIN_STAGES_SHOWN ||
           device >= count - TUTTI_TRAIN_STAGES_SHOWN;
}

static double gigabytes(uint64_t bytes)
{
    return (double)bytes / 1e9;
}

/* Layers of a device, of all its chunks. */
static uint32_t layers_of(const struct tutti_train_parallel_question *q,
                          const struct tutti_train_parallel_found *found, uint32_t device)
{
    const struct tutti_pipeline_params pipeline = tutti_parallel_pipeline(&found->cut);
    uint32_t sum = 0;

    for (uint32_t chunk = 0; chunk < found->cut.virtual_stages; chunk++)
        sum += tutti_parallel_stage_layers(&found->cut, q->of_train.model,
                                           tutti_pipeline_stage(&pipeline, device, chunk));
    return sum;
}

/* "optimizer 38.05, gradients 12.7, weights 6.341": ties in the order of terms. */
static void largest_text(const struct tutti_footprint *f, char buf[TEXT_BYTES])
{
    bool told[TUTTI_MEMORY_TERM_COUNT] = {false};
    size_t at = 0;

    buf[0] = '\0';
    for (int i = 0; i < TERMS; i++) {
        char number[TUTTI_NUMBER_TEXT_BYTES];
        int most = -1;

        for (int t = 0; t < TUTTI_MEMORY_TERM_COUNT; t++)
            if (!told[t] && f->bytes[t] > 0 && (most < 0 || f->bytes[t] > f->bytes[most]))
                most = t;
        if (most < 0)
            break;
        told[most] = true;
        at += (size_t)snprintf(buf + at, TEXT_BYTES - at, "%s%s %s", i > 0 ? ", " : "",
                               tutti_memory_term_name((enum tutti_memory_term)most),
                               tutti_number_text(gigabytes(f->bytes[most]), number));
    }
}

/* Stages that hold the same stand in one row. */
static bool is_alike(const struct tutti_footprint *a, const struct tutti_footprint *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0 &&
           a->capacity_bytes == b->capacity_bytes;
}

static int add_stages(struct tutti_table *table, const struct tutti_train_parallel_question *q,
                      const struct tutti_train_parallel_found *found, uint32_t first, uint32_t last)
{
    const struct tutti_footprint *f = &found->answer.footprints[first];
    char stage[TEXT_BYTES], largest[TEXT_BYTES];

    if (last > first)
        (void)snprintf(stage, sizeof(stage), "%u to %u", first, last);
    else
        (void)snprintf(stage, sizeof(stage), "%u", first);
    largest_text(f, largest);
    return tutti_table_add(table, stage, (uint64_t)layers_of(q, found, first),
                           gigabytes(f->total_bytes), gigabytes(f->capacity_bytes),
                           f->fits ? "yes" : "no", largest);
}

int tutti_train_parallel_memory(const struct tutti_train_parallel_question *q,
                                const struct tutti_train_parallel_found *found,
                                const struct tutti_page *page, struct tutti_err *err)
{
    static const struct tutti_column columns[] = {
        {"stage", "stage", "", TUTTI_CELL_TEXT},
        {"layers", "layers", "", TUTTI_CELL_COUNT},
        {"GB", "memory", "GB", TUTTI_CELL_NUMBER},
        {"capacity_GB", "capacity", "GB", TUTTI_CELL_NUMBER},
        {"fits", "fits", "", TUTTI_CELL_TEXT},
        {"largest", "the largest of it (GB)", "", TUTTI_CELL_TEXT},
    };
    const struct tutti_footprint *f = found->answer.footprints;
    struct tutti_table *table = tutti_table_new(columns, sizeof(columns) / sizeof(columns[0]));
    uint32_t hidden = 0;
    int status = table == NULL ? -TUTTI_ENOMEM : 0;

    for (uint32_t first = 0; first < found->cut.pipeline && status == 0;) {
        uint32_t last = first;

        while (last + 1 < found->cut.pipeline && is_alike(&f[first], &f[last + 1]) &&
               layers_of(q, found, first) == layers_of(q, found, last + 1))
            last++;
        if (page->verbose || tutti_train_parallel_is_shown(first, found->cut.pipeline) ||
            tutti_train_parallel_is_shown(last, found->cut.pipeline) || !f[first].fits)
            status = add_stages(table, q, found, first, last);
        else
            hidden += last - first + 1;
        first = last + 1;
    }
    if (status == 0) {
        fputc('\n', page->out);
        fprintf(page->out, "# memory of one device of each stage, %u devices in all\n",
                found->device_count);
        tutti_table_print(table, page);
        if (hidden > 0)
            fprintf(page->out, "# %u stages between, which fit as well (-v)\n", hidden);
    }
    tutti_table_free(table);
    return status < 0 ? tutti_nomem(err) : 0;
}

void tutti_train_parallel_memory_json(const struct tutti_train_parallel_found *found,
                                      struct tutti_json *json)
{
    tutti_json_open(json, "memory", '[');
    for (uint32_t i = 0; i < found->cut.pipeline; i++) {
        tutti_json_open(json, NULL, '{');
        tutti_train_footprint_json(&found->answer.footprints[i], json);
        tutti_json_close(json);
    }
    tutti_json_close(json);
}
