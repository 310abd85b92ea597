/* Packs, buckets and fusion buffers: one walk over the variables from the last to the first. */
#include "runtime/pack.h"

#include <assert.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/wide.h"

enum { LENGTH_BYTES = 4 }; /* TensorFlow exchanges lengths as int32 */

/* The packs so far, and the one being filled. */
struct filling {
    const struct tutti_pack_params *params;
    struct tutti_pack *pack;
    uint32_t pack_count;
    uint32_t dense_closed; /* packs that were closed by the rule */
    uint64_t dense_left;   /* elements of dense variables not yet in a closed pack */
    uint64_t sparse_left;
    struct tutti_pack open;
    uint64_t open_cycle;
    bool is_open;
};

static bool is_sparse(const struct tutti_pack_params *params, uint32_t variable)
{
    return params->sparse != NULL && params->sparse[variable];
}

/* Elements of a variable in the concatenation of the dense ones. */
static uint64_t dense(const struct tutti_pack_params *params, uint32_t variable)
{
    return is_sparse(params, variable) ? 0 : params->elements[variable];
}

static void close_pack(struct filling *filling)
{
    if (!filling->is_open)
        return;
    filling->dense_left -= filling->open.elements;
    filling->open.first_element = filling->dense_left;
    filling->pack[filling->pack_count++] = filling->open;
    filling->dense_closed++;
    filling->is_open = false;
}

static void add_dense(struct filling *filling, uint32_t variable)
{
    if (!filling->is_open)
        filling->open = (struct tutti_pack){.last_variable = variable};
    filling->open.first_variable = variable;
    filling->open.ready_variable = variable;
    filling->open.elements += filling->params->elements[variable];
    filling->is_open = true;
}

static void add_sparse(struct filling *filling, uint32_t variable)
{
    uint64_t elements = filling->params->elements[variable];

    filling->sparse_left -= elements;
    filling->pack[filling->pack_count++] =
        (struct tutti_pack){.first_element = filling->sparse_left,
                            .elements = elements,
                            .first_variable = variable,
                            .last_variable = variable,
                            .ready_variable = variable,
                            .sparse = true};
}

/* The number of the wake-up at which Horovod finds a gradient. */
static uint64_t cycle_of(const struct tutti_pack_params *params, uint32_t variable)
{
    if (params->ready_ps == NULL || params->cycle_ps <= 0 || params->ready_ps[variable] <= 0)
        return 0;
    return tutti_muldiv_up((uint64_t)params->ready_ps[variable], 1, (uint64_t)params->cycle_ps);
}

static bool would_not_fit(const struct filling *filling, uint32_t variable)
{
    const struct tutti_pack_params *params = filling->params;

    if (params->rule != TUTTI_PACK_FIT || !filling->is_open)
        return false;
    return cycle_of(params, variable) != filling->open_cycle ||
           (filling->open.elements + params->elements[variable]) * params->element_bytes >
               params->limit;
}

static bool is_full(const struct filling *filling)
{
    const struct tutti_pack_params *params = filling->params;
    uint64_t bytes = filling->open.elements * params->element_bytes;

    switch (params->rule) {
    case TUTTI_PACK_EXCEED:
        return params->limit > 0 && bytes > params->limit;
    case TUTTI_PACK_REACH:
        return bytes >= (filling->dense_closed == 0 && params->first_limit > 0 ? params->first_limit
                                                                               : params->limit);
    case TUTTI_PACK_PIECES: /* one pack a variable; pieces do not come here */
        return true;
    default:
        return false;
    }
}

/* EXCEED, REACH, FIT, and PIECES with one pack a variable. */
static void fill_backwards(struct filling *filling)
{
    const struct tutti_pack_params *params = filling->params;
    bool in_order = params->rule == TUTTI_PACK_REACH || params->rule == TUTTI_PACK_FIT;

    for (uint32_t i = params->variable_count; i-- > 0;) {
        if (is_sparse(params, i)) {
            if (in_order)
                add_sparse(filling, i);
            continue;
        }
        if (would_not_fit(filling, i))
            close_pack(filling);
        if (!filling->is_open)
            filling->open_cycle = cycle_of(params, i);
        add_dense(filling, i);
        if (is_full(filling))
            close_pack(filling);
    }
    close_pack(filling);
    for (uint32_t i = params->variable_count; !in_order && i-- > 0;)
        if (is_sparse(params, i))
            add_sparse(filling, i);
}

static void cut_pieces(struct filling *filling)
{
    const struct tutti_pack_params *params = filling->params;
    uint64_t all = filling->dense_left;
    uint64_t piece = all / params->limit;
    uint64_t first = 0;    /* element of the piece in hand */
    uint64_t before = 0;   /* elements of the variables before `variable` */
    uint32_t variable = 0; /* that holds element `first` */
    uint32_t ready = 0;    /* the first dense one: its gradient comes last */

    while (ready + 1 < params->variable_count && is_sparse(params, ready))
        ready++;
    for (uint64_t k = piece == 0 ? params->limit - 1 : 0; k < params->limit && first < all; k++) {
        uint64_t end = k + 1 == params->limit ? all : first + piece;
        struct tutti_pack pack = {
            .first_element = first, .elements = end - first, .ready_variable = ready};

        while (before + dense(params, variable) <= first)
            before += dense(params, variable++);
        pack.first_variable = variable;
        while (before + dense(params, variable) < end)
            before += dense(params, variable++);
        pack.last_variable = variable;
        filling->pack[filling->pack_count++] = pack;
        first = end;
    }
    for (uint32_t i = params->variable_count; i-- > 0;)
        if (is_sparse(params, i))
            add_sparse(filling, i);
}

static int check(const struct tutti_pack_params *params, struct filling *filling,
                 struct tutti_err *err)
{
    uint64_t all = 0;

    if (params->rule > TUTTI_PACK_FIT || params->element_bytes == 0)
        return tutti_fail(err, TUTTI_EINVAL, "packs of no known rule, or of elements of no bytes");
    if (params->rule == TUTTI_PACK_PIECES && params->limit > TUTTI_PACKS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%llu' packs (at most %d)",
                          (unsigned long long)params->limit, TUTTI_PACKS_MAX);
    for (uint32_t i = 0; i < params->variable_count; i++) {
        all = tutti_plus(all, params->elements[i]);
        if (is_sparse(params, i))
            filling->sparse_left += params->elements[i];
        else
            filling->dense_left += params->elements[i];
    }
    if (tutti_times(all, params->element_bytes) > INT64_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "gradients of more than 2^63 bytes");
    return 0;
}

int tutti_packs_new(const struct tutti_pack_params *given, struct tutti_packs **ret,
                    struct tutti_err *err)
{
    struct tutti_pack_params params;
    struct filling filling = {.params = &params};
    struct tutti_arena *arena;
    struct tutti_packs *packs;
    size_t most;
    int status = tutti_take("tutti_pack_params", &params, sizeof(params), given,
                            TUTTI_BYTES_TO(struct tutti_pack_params, cycle_ps), err);

    if (status == 0)
        status = check(&params, &filling, err);
    if (status < 0)
        return status;
    most = params.variable_count + (params.rule == TUTTI_PACK_PIECES ? (size_t)params.limit : 0);
    arena = tutti_arena_new();
    packs = arena == NULL ? NULL : tutti_arena_take(arena, 1, sizeof(*packs));
    filling.pack = packs == NULL ? NULL : tutti_arena_take(arena, most, sizeof(*filling.pack));
    if (filling.pack == NULL) {
        tutti_arena_free(arena);
        return tutti_nomem(err);
    }
    if (params.rule == TUTTI_PACK_PIECES && params.limit > 0)
        cut_pieces(&filling);
    else
        fill_backwards(&filling);
    assert(filling.pack_count <= most);
    *packs = (struct tutti_packs){
        .pack_count = filling.pack_count, .pack = filling.pack, .arena = arena};
    *ret = packs;
    return 0;
}

void tutti_packs_free(struct tutti_packs *packs)
{
    if (packs != NULL)
        tutti_arena_free(packs->arena);
}

struct tutti_slices_bytes tutti_slices_gather(const struct tutti_slices *slices,
                                              const uint64_t *touched_rows, uint32_t rank_count,
                                              uint32_t rank)
{
    uint64_t a_row = slices->row_elements * slices->element_bytes + slices->index_bytes;
    uint64_t most = 0;
    uint64_t others = 0;

    assert(rank < rank_count);
    for (uint32_t i = 0; i < rank_count; i++) {
        most = touched_rows[i] > most ? touched_rows[i] : most;
        others += i == rank ? 0 : touched_rows[i];
    }
    return (struct tutti_slices_bytes){.length_bytes = (uint64_t)LENGTH_BYTES * (rank_count - 1),
                                       .slice_bytes = others * a_row,
                                       .padding_bytes = (most * (rank_count - 1) - others) * a_row};
}

/* n (n-1) (k a_row + 4) bytes against 2 (n-1) rows row: k = (2 rows row - 4 n) / (n a_row), up. */
uint64_t tutti_slices_densify_rows(const struct tutti_slices *slices, uint32_t rank_count)
{
    uint64_t row = slices->row_elements * slices->element_bytes;
    uint64_t dense = tutti_times(2 * row, slices->rows);
    uint64_t lengths = (uint64_t)LENGTH_BYTES * rank_count;

    if (rank_count <= 1 || dense <= lengths)
        return 0;
    return tutti_muldiv_up(dense - lengths, 1, (uint64_t)rank_count * (row + slices->index_bytes));
}
