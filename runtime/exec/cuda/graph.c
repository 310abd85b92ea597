/* A plan as a CUDA graph: a kernel a level, whose blocks each play a piece of an operation. Nothing
 * waits in it, so that neither do all lanes have to fit onto the GPU at one time, nor can it hang;
 * and every level has the whole GPU. See gpu.h. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/exec/cuda/gpu.h"
#include "runtime/status.h"

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)

/* Blocks of a level: two for each multiprocessor, so that one may end late; pieces are no shorter
 * than what is worth a block, and begin where vectors do. */
enum { BLOCKS_EACH = 2, PIECE_BYTES_MIN = 16 << 10, PIECE_ALIGNMENT = 512 };

/* ---- pieces ---- */

static uint64_t piece_bytes(const struct tutti_gpu_load *load, uint32_t level)
{
    const struct tutti_cuda_plan *plan = load->plan;
    uint64_t blocks = BLOCKS_EACH * (uint64_t)load->gpu->multiprocessor_count;
    uint64_t total = 0;
    uint64_t bytes;

    for (uint32_t i = 0; i < plan->op_count; i++)
        total += load->graph.stages.levels[i] == level ? plan->ops[i].bytes : 0;
    bytes = (total / blocks / PIECE_ALIGNMENT + 1) * PIECE_ALIGNMENT;
    return bytes < PIECE_BYTES_MIN ? PIECE_BYTES_MIN : bytes;
}

static uint32_t count_pieces(const struct tutti_cuda_planned_op *op, uint64_t bytes)
{
    return op->bytes == 0 ? 1 : (uint32_t)((op->bytes + bytes - 1) / bytes);
}

static int cut(struct tutti_gpu_load *load, uint32_t level, struct tutti_err *err)
{
    struct tutti_gpu_graph *graph = &load->graph;
    const struct tutti_cuda_plan *plan = load->plan;
    uint64_t bytes = piece_bytes(load, level);
    uint32_t count = graph->piece_count;
    struct tutti_gpu_piece *larger;

    for (uint32_t i = 0; i < plan->op_count; i++)
        if (graph->stages.levels[i] == level)
            count += count_pieces(&plan->ops[i], bytes);
    larger = realloc(graph->pieces, ((size_t)count + 1) * sizeof(*larger));
    if (larger == NULL)
        return tutti_nomem(err);
    graph->pieces = larger;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        if (graph->stages.levels[i] != level)
            continue;
        for (uint32_t p = 0; p < count_pieces(&plan->ops[i], bytes); p++) {
            uint64_t left = plan->ops[i].bytes - p * bytes;

            graph->pieces[graph->piece_count++] = (struct tutti_gpu_piece){
                .op = i, .offset = p * bytes, .bytes = left < bytes ? left : bytes};
        }
    }
    graph->piece_first[level + 1] = graph->piece_count;
    return 0;
}

int tutti_gpu_graph_plan(struct tutti_gpu_load *load, struct tutti_err *err)
{
    struct tutti_gpu_graph *graph = &load->graph;
    int status;

    if (load->plan->asks)
        return tutti_fail(err, TUTTI_ELACK,
                          "the schedule '%s' has work of the host's, which is not played level by "
                          "level",
                          load->plan->schedule->name);
    status = tutti_cuda_stages_open(&graph->stages, load->plan, err);
    if (status < 0)
        return status;
    graph->piece_first =
        calloc((size_t)graph->stages.level_count + 1, sizeof(graph->piece_first[0]));
    if (graph->piece_first == NULL)
        return tutti_nomem(err);
    for (uint32_t l = 0; l < graph->stages.level_count && status == 0; l++)
        status = cut(load, l, err);
    return status;
}

void tutti_gpu_graph_pieces(const struct tutti_gpu_load *load, const struct tutti_cuda_op *ops,
                            struct tutti_cuda_op *ret_ops, struct tutti_cuda_lane *ret_lanes)
{
    const struct tutti_gpu_graph *graph = &load->graph;

    for (uint32_t p = 0; p < graph->piece_count; p++) {
        const struct tutti_gpu_piece *piece = &graph->pieces[p];
        struct tutti_cuda_op *op = &ret_ops[p];

        *op = ops[piece->op];
        op->bytes = piece->bytes;
        op->wait_count = op->signal_count = 0;
        for (uint32_t s = 0; s < op->src_count; s++)
            op->src[s] += piece->offset;
        for (uint32_t d = 0; d < op->dst_count; d++)
            op->dst[d] += piece->offset;
        ret_lanes[p] = (struct tutti_cuda_lane){.op_first = p, .op_count = 1};
    }
}

/* ---- the graph ---- */

static int capture_level(struct tutti_gpu_load *load, uint32_t level, struct tutti_err *err)
{
    struct tutti_gpu *gpu = load->gpu;
    uint32_t first = load->graph.piece_first[level];
    uint32_t count = load->graph.piece_first[level + 1] - first;
    struct tutti_cuda_args args = load->args;
    void *parameters[1] = {&args};

    if (count == 0)
        return 0;
    args.lanes += first;
    args.iteration_count = 1;
    args.stamps = load->stamped ? (struct tutti_cuda_stamp *)(uintptr_t)load->stamps : NULL;
    return CALL(gpu, launch_alone, load->kernel, count, 1, 1, load->thread_count, 1, 1, 0,
                gpu->stream, parameters, NULL);
}

/* Launches that are put into a graph instead of being played. */
int tutti_gpu_graph_make(struct tutti_gpu_load *load, struct tutti_err *err)
{
    enum { THIS_THREAD = 1 }; /* others may go on with what they do */
    struct tutti_gpu_graph *graph = &load->graph;
    struct tutti_gpu *gpu = load->gpu;
    int status = CALL(gpu, capture_begin, gpu->stream, THIS_THREAD);
    int ended;

    if (status < 0)
        return status;
    for (uint32_t l = 0; l < graph->stages.level_count && status == 0; l++)
        status = capture_level(load, l, err);
    if (status < 0) {
        (void)gpu->driver.capture_end(gpu->stream, &graph->graph);
        return status;
    }
    ended = CALL(gpu, capture_end, gpu->stream, &graph->graph);
    return ended < 0 ? ended : CALL(gpu, graph_open, &graph->played, graph->graph, 0);
}

void tutti_gpu_graph_close(struct tutti_gpu_load *load)
{
    struct tutti_gpu_graph *graph = &load->graph;
    bool there = load->gpu != NULL && !load->gpu->lost;

    if (graph->played != NULL && there)
        (void)load->gpu->driver.graph_close(graph->played);
    if (graph->graph != NULL && there)
        (void)load->gpu->driver.graph_free(graph->graph);
    tutti_cuda_stages_close(&graph->stages);
    free(graph->piece_first);
    free(graph->pieces);
    *graph = (struct tutti_gpu_graph){0};
}

/* ---- times ---- */

void tutti_gpu_graph_stamps(const struct tutti_gpu_load *load,
                            const struct tutti_cuda_stamp *pieces, struct tutti_cuda_stamp *ops)
{
    const struct tutti_cuda_plan *plan = load->plan;
    uint64_t first_ns = UINT64_MAX;

    for (uint32_t p = 0; p < load->graph.piece_count; p++) {
        struct tutti_cuda_stamp *op = &ops[load->graph.pieces[p].op];

        if (op->begin_ns == 0 || pieces[p].begin_ns < op->begin_ns)
            op->begin_ns = pieces[p].begin_ns;
        if (pieces[p].end_ns > op->end_ns)
            op->end_ns = pieces[p].end_ns;
        first_ns = pieces[p].begin_ns < first_ns ? pieces[p].begin_ns : first_ns;
    }
    first_ns = load->graph.piece_count == 0 ? 0 : first_ns;
    for (uint32_t l = 0; l < plan->lane_total; l++) {
        uint64_t now_ns = first_ns; /* what only waits or tells others takes no time */

        for (uint32_t i = plan->op_first[l]; i < plan->op_first[l + 1]; i++) {
            if (load->graph.stages.levels[i] == TUTTI_CUDA_NO_LEVEL)
                ops[i] = (struct tutti_cuda_stamp){now_ns, now_ns};
            else if (ops[i].end_ns > now_ns)
                now_ns = ops[i].end_ns;
        }
    }
}
