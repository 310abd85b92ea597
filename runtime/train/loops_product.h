/* The product of two matrices, a part of loops_template.h: tiles of accumulators in registers, over
 * a panel of B that is packed so that its vectors lie one behind the other. Each element is summed
 * in the order of the depth, ((c + a0 b0) + a1 b1) + ..., whatever the tile that it is in: a row's
 * result does not depend on how many rows there are, nor on the processor. */
#ifndef TUTTI_RUNTIME_TRAIN_LOOPS_PRODUCT_H
#define TUTTI_RUNTIME_TRAIN_LOOPS_PRODUCT_H

#include <stddef.h>
#include <string.h>

#include "runtime/train/products.h"

enum { TILE_COLUMNS = VECTOR * TILE_VECTORS, PANEL_DEPTH = 256 };

typedef float tile_vector __attribute__((vector_size(VECTOR * sizeof(float))));

/* What of a product one call of a tile works on. */
struct panel {
    const float *a; /* element (0, first of the panel's depth) */
    size_t a_row;   /* from one row to the next */
    size_t a_depth;
    const float *b; /* packed: [depth][TILE_COLUMNS], 64-byte aligned */
    size_t depth;
    float *c;
    size_t c_row;
    size_t columns; /* <= TILE_COLUMNS */
    bool add;
};

/* The columns from `column` on, zeros beyond the last. */
static void pack_panel(const struct tutti_product *p, size_t from, size_t depth, size_t column,
                       size_t columns, float *packed)
{
    for (size_t k = 0; k < depth; k++) {
        float *to = packed + k * TILE_COLUMNS;

        if (columns < TILE_COLUMNS)
            memset(to, 0, TILE_COLUMNS * sizeof(*to));
        if (p->transpose_b) {
            for (size_t j = 0; j < columns; j++)
                to[j] = p->b[(column + j) * p->depth + from + k];
        } else {
            memcpy(to, p->b + (from + k) * p->columns + column, columns * sizeof(*to));
        }
    }
}

/* `rows` is a constant at each call, so that the accumulators stay in registers. */
static inline __attribute__((always_inline)) void tile(const struct panel *p, size_t rows)
{
    float whole[TILE_ROWS][TILE_COLUMNS];
    tile_vector sums[TILE_ROWS][TILE_VECTORS];

    memset(whole, 0, sizeof(whole));
    for (size_t i = 0; i < rows && p->add; i++)
        memcpy(whole[i], p->c + i * p->c_row, p->columns * sizeof(float));
    for (size_t i = 0; i < rows; i++)
        memcpy(sums[i], whole[i], sizeof(sums[i]));
    for (size_t k = 0; k < p->depth; k++) {
        tile_vector b[TILE_VECTORS];

        memcpy(b, p->b + k * TILE_COLUMNS, sizeof(b));
        for (size_t i = 0; i < rows; i++) {
            float a = p->a[i * p->a_row + k * p->a_depth];

            for (size_t j = 0; j < TILE_VECTORS; j++)
                sums[i][j] += a * b[j];
        }
    }
    for (size_t i = 0; i < rows; i++) {
        memcpy(whole[i], sums[i], sizeof(sums[i]));
        memcpy(p->c + i * p->c_row, whole[i], p->columns * sizeof(float));
    }
}

static void full_tile(const struct panel *p)
{
    tile(p, TILE_ROWS);
}

static void one_row(const struct panel *p)
{
    tile(p, 1);
}

static void multiply(const struct tutti_product *p)
{
    _Alignas(64) float packed[PANEL_DEPTH * TILE_COLUMNS];
    struct panel panel = {.a_row = p->transpose_a ? 1 : p->depth,
                          .a_depth = p->transpose_a ? p->rows : 1,
                          .b = packed,
                          .c_row = p->columns};

    for (size_t column = 0; column < p->columns; column += TILE_COLUMNS) {
        panel.columns = p->columns - column < TILE_COLUMNS ? p->columns - column : TILE_COLUMNS;
        for (size_t from = 0; from < p->depth || from == 0; from += PANEL_DEPTH) {
            size_t row = 0;

            panel.depth = p->depth - from < PANEL_DEPTH ? p->depth - from : PANEL_DEPTH;
            panel.add = p->add || from > 0;
            pack_panel(p, from, panel.depth, column, panel.columns, packed);
            for (; row < p->rows; row += row + TILE_ROWS <= p->rows ? TILE_ROWS : 1) {
                panel.a = p->a + row * panel.a_row + from * panel.a_depth;
                panel.c = p->c + row * p->columns + column;
                if (row + TILE_ROWS <= p->rows)
                    full_tile(&panel);
                else
                    one_row(&panel);
            }
        }
    }
}

#endif
