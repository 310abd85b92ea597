/* What compressed gradients come to: the largest elements of a pack, or factors of its matrices. */
#include "runtime/arena.h"
#include "runtime/status.h"
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

/* A variable whose rows times columns shrink enough; else it stays whole. */
static struct tutti_plan_matrix matrix_of(const struct tutti_plan *plan,
                                          const struct tutti_layer *layer,
                                          const struct tutti_variable *v)
{
    const struct tutti_compressor compressor = {.kind = TUTTI_COMPRESS_POWER_SGD,
                                                .rank = plan->strategy->factor_rank};
    struct tutti_plan_matrix m = {.elements = v->elements};
    uint64_t columns;

    if (v->unreduced || tutti_strategy_gathers_rows(plan->strategy, v))
        return (struct tutti_plan_matrix){.elements = 0};
    shape_of(layer, v, &m.rows, &columns);
    if (tutti_compressed_of(&compressor, m.rows, columns, plan->params.gradient_bytes, 2)
            .collectives == 2)
        m.columns = columns;
    return m;
}

int tutti_plan_list_matrices(struct tutti_plan *plan, struct tutti_err *err)
{
    uint64_t first = 0;
    uint32_t count = 0;

    if (plan->strategy->compression != TUTTI_COMPRESS_POWER_SGD)
        return 0;
    for (uint32_t i = 0; i < plan->layer_count; i++)
        count += plan->layers[i].layer->variable_count;
    plan->matrices = tutti_arena_take(plan->arena, (size_t)count + 1, sizeof(*plan->matrices));
    if (plan->matrices == NULL)
        return tutti_nomem(err);
    count = 0;
    for (uint32_t i = 0; i < plan->layer_count; i++)
        for (uint32_t k = 0; k < plan->layers[i].layer->variable_count; k++) {
            struct tutti_plan_matrix *m = &plan->matrices[count++];

            *m = matrix_of(plan, plan->layers[i].layer, &plan->layers[i].layer->variables[k]);
            m->first = first;
            m->factor = plan->factor_elements;
            first += m->elements;
            plan->factor_elements += plan->strategy->factor_rank * m->columns;
        }
    return 0;
}

/* Both factors of a matrix, the second once the first has been reduced; all of what is none. */
static void factor(struct tutti_plan *plan, struct tutti_plan_pack *pack)
{
    const uint64_t rank = plan->strategy->factor_rank;

    pack->sent[0] = 0;
    for (uint32_t i = pack->first_variable; i <= pack->last_variable; i++) {
        struct tutti_plan_matrix *m = &plan->matrices[i];

        m->sent[0] = pack->sent[0];
        m->sent[1] = pack->sent[1];
        pack->sent[0] += m->columns > 0 ? rank * m->rows : m->elements;
        pack->sent[1] += rank * m->columns;
    }
}

void tutti_plan_compress(struct tutti_plan *plan, struct tutti_plan_pack *pack)
{
    const uint64_t element_bytes = plan->params.gradient_bytes;
    uint64_t kept = tutti_muldiv(pack->elements, plan->strategy->keep_ppm, MILLION);

    if (pack->sparse || plan->strategy->compression == TUTTI_COMPRESS_NONE)
        return;
    pack->compressed = true;
    if (plan->strategy->compression == TUTTI_COMPRESS_POWER_SGD) {
        factor(plan, pack);
        return;
    }
    pack->kept = kept > 0 ? kept : 1;
    pack->gathered = true;
    pack->sent[0] =
        (pack->kept * (element_bytes + TOP_K_INDEX_BYTES) + element_bytes - 1) / element_bytes;
}
