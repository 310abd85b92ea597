/* Turns for tori of unequal axes.
 *
 * A part of the data that goes over axes a, b, c, ... in this order loads a with (a-1)/a of itself,
 * b with (b-1)/(ab), and so on: the loads of the possible orders span the base of a polymatroid
 * (a set of axes carries at most 1 - 1/(product of their lengths), and just that where they come
 * first). The loads that keep all links busy, in proportion to the links of an axis (one each way,
 * but on an axis of two only one), lie in it, so they are a mixture of at most as many orders as
 * there are axes: from a corner through the point to the opposite face, and on from there in the
 * face (Caratheodory).
 *
 * Each order's data are cut into a few pieces, and axes serve pieces as machines of a job shop:
 * whoever can begin first, and of those the one that is least far. The order on each axis that
 * comes out is what pieces wait for. With two axes two pieces keep all axes busy to the end; with
 * three up to six do (all tori of up to 64 devices); with four about 6 % may be left idle. */
#include "runtime/coll/torus_turns.h"

#include <math.h>
#include <string.h>

enum {
    AXES_MAX = 8,
    CUTS_MAX = 6,    /* pieces of an order */
    PIECES_MAX = 32, /* in all; a route each, each way */
    PHASES_MAX = 2 * AXES_MAX - 1,
};
_Static_assert((int)AXES_MAX == (int)TUTTI_DIMS_MAX, "a grid has no more axes");
_Static_assert(2 * (int)PIECES_MAX <= (int)BUCKET_ROUTES_MAX, "a route each way for each piece");

static const double tiny = 1e-9;
static const double busy_enough = 1.0002; /* of the time that the busiest axis needs */
static const double useful = 1.1;

/* A torus, in seconds for all data at one byte a second each way over a link. */
struct torus {
    uint32_t axis_count;
    double size[AXES_MAX];
    double links[AXES_MAX]; /* that leave a device, on each axis */
    double ideal;           /* time if all links were busy all the time */
};

/* How much of the data goes over the axes in which order. */
struct mixture {
    uint32_t count;
    uint8_t order[AXES_MAX + 1][AXES_MAX];
    double share[AXES_MAX + 1];
};

/* ---- the mixture ----------------------------------------------------------------------------- */

/* Loads of the axes when all data take one order. */
static void load_of_order(const struct torus *torus, const uint8_t *order, double *load)
{
    double left = 1;

    for (uint32_t i = 0; i < torus->axis_count; i++) {
        double size = torus->size[order[i]];

        load[order[i]] = left * (size - 1) / size;
        left /= size;
    }
}

/* How far from `load` in direction `step` until a set of axes carries all that it can; that set. */
static double way_out(const struct torus *torus, const double *load, const double *step,
                      uint32_t *ret_set)
{
    double least = INFINITY;

    for (uint32_t set = 1; set < 1u << torus->axis_count; set++) {
        double room = 1;
        double product = 1;
        double growth = 0;

        for (uint32_t i = 0; i < torus->axis_count; i++) {
            if ((set >> i & 1) == 0)
                continue;
            product *= torus->size[i];
            room -= load[i];
            growth += step[i];
        }
        room -= 1 / product;
        if (growth > tiny && room / growth < least - tiny) {
            least = room / growth;
            *ret_set = set;
        }
    }
    return least > 0 ? least : 0;
}

/* Within each block of the order the axes of the set come first; blocks are split there. `ends` has
 * a bit for each place at which a block ends. */
static void split_blocks(uint32_t axis_count, uint32_t set, uint8_t *order, uint32_t *ends)
{
    uint32_t first = 0;

    for (uint32_t last = 0; last < axis_count; last++) {
        uint8_t inside[AXES_MAX];
        uint8_t outside[AXES_MAX];
        uint32_t in = 0;
        uint32_t out = 0;

        if ((*ends >> last & 1) == 0)
            continue;
        for (uint32_t i = first; i <= last; i++) {
            if ((set >> order[i] & 1) != 0)
                inside[in++] = order[i];
            else
                outside[out++] = order[i];
        }
        memcpy(order + first, inside, in);
        memcpy(order + first + in, outside, out);
        if (in > 0)
            *ends |= 1u << (first + in - 1);
        first = last + 1;
    }
}

/* The mixture that loads each axis by its links, beginning with the order that starts at `turn`. */
static bool mix(const struct torus *torus, uint32_t turn, struct mixture *ret)
{
    uint32_t count = torus->axis_count;
    uint32_t ends = 1u << (count - 1);
    double rest = 1;
    double load[AXES_MAX];
    uint8_t order[AXES_MAX];

    for (uint32_t i = 0; i < count; i++) {
        load[i] = torus->links[i] * torus->ideal / 2;
        order[i] = (uint8_t)((i + turn) % count);
    }
    for (ret->count = 0; ret->count <= count;) {
        double corner[AXES_MAX];
        double step[AXES_MAX];
        double most = 0;
        uint32_t set = 0;
        double way;

        load_of_order(torus, order, corner);
        for (uint32_t i = 0; i < count; i++) {
            step[i] = load[i] - corner[i];
            most = step[i] > most ? step[i] : most;
        }
        way = most > tiny ? way_out(torus, load, step, &set) : INFINITY;
        memcpy(ret->order[ret->count], order, count);
        ret->share[ret->count] = isinf(way) ? rest : rest * way / (1 + way);
        ret->count += ret->share[ret->count] > tiny;
        if (isinf(way))
            return true;
        rest /= 1 + way;
        for (uint32_t i = 0; i < count; i++)
            load[i] += way * step[i];
        split_blocks(count, set, order, &ends);
    }
    return false;
}

/* ---- the job shop ---------------------------------------------------------------------------- */

struct piece {
    uint8_t order[AXES_MAX];
    double share;
    double times[PHASES_MAX]; /* of its phases */
    uint32_t done_count;      /* phases begun */
    double ready;             /* when the last of them ends */
    struct turn after[PHASES_MAX];
};

struct shop {
    const struct torus *torus;
    uint32_t phase_count;
    uint32_t piece_count;
    struct piece pieces[PIECES_MAX];
    double free[AXES_MAX];      /* when an axis can begin the next piece, */
    struct turn last[AXES_MAX]; /* and what it does until then */
};

static uint8_t axis_of(const struct shop *shop, const struct piece *piece)
{
    uint32_t last = shop->torus->axis_count - 1;
    uint32_t phase = piece->done_count;

    return piece->order[phase <= last ? phase : 2 * last - phase];
}

static void add_piece(struct shop *shop, const uint8_t *order, double share)
{
    const struct torus *torus = shop->torus;
    struct piece *piece = &shop->pieces[shop->piece_count++];
    double load[AXES_MAX];

    *piece = (struct piece){.share = share};
    memcpy(piece->order, order, torus->axis_count);
    load_of_order(torus, order, load);
    for (uint32_t i = 0; i < torus->axis_count; i++) {
        double time = share * load[order[i]] / torus->links[order[i]];

        piece->times[i] = i + 1 < torus->axis_count ? time : 2 * time;
        piece->times[shop->phase_count - 1 - i] = piece->times[i];
    }
}

/* The piece that can begin its next phase first; of several, the one with the fewest phases behind
 * it, and of those the first. NULL: all are done. */
static struct piece *next_piece(struct shop *shop, double *ret_start)
{
    struct piece *best = NULL;

    for (uint32_t i = 0; i < shop->piece_count; i++) {
        struct piece *piece = &shop->pieces[i];
        double start = piece->ready;

        if (piece->done_count == shop->phase_count)
            continue;
        start = fmax(start, shop->free[axis_of(shop, piece)]);
        if (best == NULL || start < *ret_start - tiny ||
            (start < *ret_start + tiny && piece->done_count < best->done_count)) {
            best = piece;
            *ret_start = start;
        }
    }
    return best;
}

/* Plays all pieces; returns when the last axis is done. */
static double run(struct shop *shop)
{
    double start = 0;
    double end = 0;

    for (uint32_t i = 0; i < shop->torus->axis_count; i++) {
        shop->free[i] = 0;
        shop->last[i] = (struct turn){.route = BUCKET_ROUTE_NONE};
    }
    for (struct piece *piece = next_piece(shop, &start); piece != NULL;
         piece = next_piece(shop, &start)) {
        uint8_t axis = axis_of(shop, piece);
        uint32_t phase = piece->done_count++;

        piece->after[phase] = shop->last[axis];
        shop->last[axis] = (struct turn){.route = (uint32_t)(piece - shop->pieces), .phase = phase};
        piece->ready = shop->free[axis] = start + piece->times[phase];
        end = fmax(end, piece->ready);
    }
    return end;
}

/* Cuts the mixture into pieces, those of an order in a row or by turns. */
static void lay_pieces(struct shop *shop, const struct mixture *mixture, uint32_t cuts, bool turns)
{
    shop->piece_count = 0;
    for (uint32_t i = 0; i < cuts * mixture->count; i++) {
        uint32_t order = turns ? i % mixture->count : i / cuts;

        add_piece(shop, mixture->order[order], mixture->share[order] / cuts);
    }
}

/* Tries until the axes are busy enough; keeps the best. */
static double find_best(const struct torus *torus, struct shop *best)
{
    double best_end = INFINITY;

    for (uint32_t try = 0; try < CUTS_MAX * 2 * torus->axis_count; try++) {
        struct shop shop = {.torus = torus, .phase_count = 2 * torus->axis_count - 1};
        uint32_t cuts = 1 + try / (2 * torus->axis_count);
        struct mixture mixture;
        double end;

        if (!mix(torus, try / 2 % torus->axis_count, &mixture) || mixture.count * cuts > PIECES_MAX)
            continue;
        lay_pieces(&shop, &mixture, cuts, try % 2 == 1);
        end = run(&shop);
        if (end < best_end - tiny) {
            best_end = end;
            *best = shop;
        }
        if (best_end < torus->ideal * busy_enough)
            break;
    }
    return best_end;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static struct turn turn_of(struct turn turn, uint32_t way)
{
    if (turn.route != BUCKET_ROUTE_NONE)
        turn.route = 2 * turn.route + way;
    return turn;
}

bool tutti_torus_turns(const struct route *axes, struct bucket_plan *plan)
{
    struct torus torus = {.axis_count = axes->axis_count};
    struct shop shop = {.piece_count = 0};
    double links = 0;
    double product = 1;

    for (uint32_t i = 0; i < axes->axis_count; i++) {
        torus.size[i] = axes->axis[i].size;
        torus.links[i] = axes->axis[i].size > 2 ? 2 : 1;
        product *= torus.size[i];
        links += torus.links[i];
    }
    torus.ideal = 2 * (1 - 1 / product) / links;
    if (find_best(&torus, &shop) > torus.ideal * useful)
        return false;
    plan->route_count = 2 * shop.piece_count;
    plan->weighted = true;
    for (uint32_t r = 0; r < plan->route_count; r++) {
        const struct piece *piece = &shop.pieces[r / 2];
        struct route *route = &plan->route[r];

        *route = (struct route){.axis_count = axes->axis_count};
        route->weight = (uint64_t)(piece->share * (1u << 30)) + 1;
        for (uint32_t k = 0; k < axes->axis_count; k++) {
            route->axis[k] = axes->axis[piece->order[k]];
            route->axis[k].reversed = r % 2 == 1;
        }
        for (uint32_t p = 0; p < shop.phase_count; p++)
            route->after[p] = turn_of(piece->after[p], r % 2);
    }
    return true;
}
