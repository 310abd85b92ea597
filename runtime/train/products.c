/* Who multiplies: OpenBLAS, or the loops of this tree. */
#include "runtime/train/products.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "runtime/blas.h"
#include "runtime/train/loops.h"

/* Of cblas.h. */
enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

static void by_blas(const struct tutti_products *products, const struct tutti_product *p)
{
    int rows = (int)p->rows;
    int columns = (int)p->columns;
    int depth = (int)p->depth;

    assert(p->rows <= INT_MAX && p->columns <= INT_MAX);
    assert(p->depth <= INT_MAX);
    products->blas.sgemm(ROW_MAJOR, p->transpose_a ? TRANSPOSED : PLAIN,
                         p->transpose_b ? TRANSPOSED : PLAIN, rows, columns, depth, 1, p->a,
                         p->transpose_a ? rows : depth, p->b, p->transpose_b ? depth : columns,
                         p->add ? 1 : 0, p->c, columns);
}

static void by_loops(const struct tutti_products *products, const struct tutti_product *product)
{
    products->loops->multiply(product);
}

void tutti_products_by_loops(const struct tutti_loops *loops, struct tutti_products *ret)
{
    *ret = (struct tutti_products){.multiply = by_loops, .name = "loops", .loops = loops};
}

void tutti_products_open(uint32_t thread_count, struct tutti_products *ret)
{
    struct tutti_blas blas;

    tutti_products_by_loops(tutti_loops_at(0), ret);
    if (!tutti_blas_open(&blas))
        return;
    ret->multiply = by_blas;
    ret->name = "openblas";
    ret->blas = blas;
    ret->threads_before = blas.get_threads();
    blas.set_threads(thread_count == 0 ? 1 : (int)thread_count);
}

void tutti_products_close(struct tutti_products *products)
{
    if (products->threads_before > 0)
        products->blas.set_threads(products->threads_before);
    products->threads_before = 0;
}

bool tutti_blas_name(char *buf)
{
    struct tutti_blas blas;
    const char *config;
    size_t length;

    if (!tutti_blas_open(&blas))
        return false;
    config = blas.config();
    length = strcspn(config, " "); /* the name, then the version */
    length += strspn(config + length, " ");
    length += strcspn(config + length, " ");
    (void)snprintf(buf, TUTTI_BLAS_NAME_BYTES, "%.*s (%.32s)", length > 48 ? 48 : (int)length,
                   config, blas.kernels());
    return true;
}
