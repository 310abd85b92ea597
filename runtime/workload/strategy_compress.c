/* What compressed gradients come to: the largest elements of a pack, or factors of its matrices. */
#include "runtime/wide.h"
#include "runtime/workload/strategy_plan.h"

enum { MILLION = 1000000, TOP_K_INDEX_BYTES = 4 };

/* Rows and columns of a variable as a matrix: those of the product that it is a factor of (of a
 * convolution window x inputs, and outputs); else its first axis and the others. */
static void shape_of(const struct tutti_layer *layer, const struct tutti_variable *v,
                     uint64_t *ret_rows, uint64_t *ret_columns)
{
    *ret_rows = v->rows > 0 ? v->rows : 1;
    *ret_columns = v->elements / *ret_rows;
    for (uint32_t i = 0; i < layer->operation_count; i++) {
        const struct tutti_operation *op = &layer->operations[i];

        if ((op->kind != TUTTI_WORK_MATMUL && op->kind != TUTTI_WORK_CONVOLUTION) ||
            op->count > 1 || tutti_times(op->depth, op->columns) != v->elements)
            continue;
        *ret_rows = op->depth;
        *ret_columns = op->columns;
        return;
    }
}

/* Both factors of a matrix, the second once the first has been reduced; all of what is none, or
 * would shrink too little. */
static void add_factors(const struct tutti_plan *plan, const struct tutti_layer *layer,
                        const struct tutti_variable *v, uint64_t sent[2])
{
    const struct tutti_compressor compressor = {.kind = TUTTI_COMPRESS_POWER_SGD,
                                                .rank = plan->strategy->factor_rank};
    uint64_t rows;
    uint64_t columns;

    shape_of(layer, v, &rows, &columns);
    if (tutti_compressed_of(&compressor, rows, columns, plan->params.gradient_bytes, 2)
            .collectives < 2) {
        sent[0] += v->elements;
        return;
    }
    sent[0] += compressor.rank * rows;
    sent[1] += compressor.rank * columns;
}

static void factor(const struct tutti_plan *plan, uint32_t first, uint32_t last,
                   struct tutti_plan_pack *pack)
{
    uint32_t number = 0;

    pack->sent[0] = 0;
    for (uint32_t i = 0; i < plan->layer_count; i++) {
        const struct tutti_layer *layer = plan->layers[i].layer;

        for (uint32_t k = 0; k < layer->variable_count; k++, number++) {
            const struct tutti_variable *v = &layer->variables[k];

            if (number >= first && number <= last && !v->unreduced &&
                !tutti_strategy_gathers_rows(plan->strategy, v))
                add_factors(plan, layer, v, pack->sent);
        }
    }
}

void tutti_plan_compress(const struct tutti_plan *plan, uint32_t first_variable,
                         uint32_t last_variable, struct tutti_plan_pack *pack)
{
    const uint64_t element_bytes = plan->params.gradient_bytes;
    uint64_t kept = tutti_muldiv(pack->elements, plan->strategy->keep_ppm, MILLION);

    if (pack->sparse || plan->strategy->compression == TUTTI_COMPRESS_NONE)
        return;
    pack->compressed = true;
    if (plan->strategy->compression == TUTTI_COMPRESS_POWER_SGD) {
        factor(plan, first_variable, last_variable, pack);
        return;
    }
    kept = kept > 0 ? kept : 1;
    pack->gathered = true;
    pack->sent[0] =
        (kept * (element_bytes + TOP_K_INDEX_BYTES) + element_bytes - 1) / element_bytes;
}
