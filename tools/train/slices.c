/* What sparse gradients send, and from where on dense ones would be fewer bytes. */
#include "tools/train/slices.h"

#include <inttypes.h>

#include "runtime/pack.h"
#include "runtime/wide.h"
#include "tools/cli/output.h"

enum { INDEX_BYTES = 8, LENGTH_BYTES = 4 };

/* Of all sparse variables, to each device; and of the one for which the fewest samples are enough
 * the rows from which on dense is less. */
struct sums {
    uint32_t count;
    uint64_t gathered_bytes;
    uint64_t dense_bytes;
    uint64_t samples;
    uint64_t rows;
    const char *name;
};

static void add(const struct tutti_train_slices_ask *ask, const struct tutti_variable *v,
                struct sums *sums)
{
    const uint32_t element_bytes = ask->element_bytes > 0 ? ask->element_bytes : 4;
    const struct tutti_slices slices = {.rows = v->rows,
                                        .row_elements = v->elements / v->rows,
                                        .element_bytes = element_bytes,
                                        .index_bytes = INDEX_BYTES};
    const uint64_t others = ask->rank_count - UINT64_C(1);
    const uint64_t touched = tutti_times(v->touched_rows, ask->samples);
    const uint64_t a_row = slices.row_elements * element_bytes + INDEX_BYTES;
    const uint64_t rows = tutti_slices_densify_rows(&slices, ask->rank_count);
    const uint64_t samples = (rows + v->touched_rows - 1) / v->touched_rows;

    sums->count++;
    sums->gathered_bytes +=
        others * ((touched < v->rows ? touched : v->rows) * a_row + LENGTH_BYTES);
    sums->dense_bytes += tutti_ring_sent_max(v->elements, element_bytes, ask->rank_count);
    if (sums->name != NULL && samples >= sums->samples)
        return;
    sums->name = v->name;
    sums->rows = rows;
    sums->samples = samples;
}

static struct sums sum(const struct tutti_train_slices_ask *ask)
{
    struct tutti_strategy gathers = *ask->strategy;
    struct sums sums = {0};

    gathers.densify = false;
    for (uint32_t i = 0; i < ask->model->layer_count; i++)
        for (uint32_t k = 0; k < ask->model->layers[i].variable_count; k++) {
            const struct tutti_variable *v = &ask->model->layers[i].variables[k];

            if (!v->unreduced && v->rows > 0 && tutti_strategy_gathers_rows(&gathers, v))
                add(ask, v, &sums);
        }
    return sums;
}

void tutti_train_slices_print(const struct tutti_train_slices_ask *ask, FILE *out)
{
    const struct sums sums = sum(ask);
    const char *several = sums.count == 1 ? "" : "s";
    char gathered[TUTTI_NUMBER_TEXT_BYTES];
    char dense[TUTTI_NUMBER_TEXT_BYTES];

    if (sums.count == 0 || ask->rank_count < 2)
        return;
    (void)tutti_number_text((double)sums.gathered_bytes / 1e6, gathered);
    (void)tutti_number_text((double)sums.dense_bytes / 1e6, dense);
    if (ask->strategy->densify)
        fprintf(
            out,
            "# sparse:   %u variable%s reduced whole, %s MB to each device a step; rows gathered "
            "%s MB\n#   (--sparse gather), less below",
            sums.count, several, dense, gathered);
    else
        fprintf(out,
                "# sparse:   rows of %u variable%s gathered, %s MB to each device a step; reduced "
                "whole %s MB\n#   (--sparse dense), less from",
                sums.count, several, gathered, dense);
    fprintf(out, " %" PRIu64 " rows of '%s' a device%s\n", sums.rows, sums.name,
            ask->strategy->densify ? "" : " on");
}
