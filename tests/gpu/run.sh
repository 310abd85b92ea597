#!/bin/bash
# Builds what needs a GPU, checks it, and measures, all in one call: for a machine with a GPU of
# NVIDIA or several, the CUDA Toolkit and NCCL (player and bars need no NCCL). Usage: tests/gpu/run.sh FOLDER
# [STAGE...]
#   player   the backend cuda: conformance on 1 to 16 virtual ranks, its own tests, every algorithm
#            by `tutti run`, and compute-sanitizer where it is (FOLDER/player-*.log)
#   train    linear regression, an MLP and a CNN trained by 2, 4 and 8 virtual ranks on one GPU:
#            weights beside those of threads, a JSON line a step, cuBLAS beside own kernels; the
#            same by NCCL where it is: a rank a GPU, and 2 processes that share one
#            (FOLDER/player-train.log, FOLDER/nccl-train.log, FOLDER/train-*.json)
#   predict  layers and collectives measured in training on 2 virtual ranks, then steps of other
#            batches and strategies predicted and measured (FOLDER/predict.log)
#   topo     this machine as `topo show local` reads it: facts, topology, a prediction on it
#            (FOLDER/topo.facts is all that was read, and a golden file to be)
#   validate costs of the backend cuda fitted to small schedules, and collectives of other sizes
#            predicted by them (FOLDER/cuda.local, FOLDER/validate-*.log and .csv)
#   several  the backend cuda on 2 GPUs and more: conformance, its own tests and every algorithm, with
#            peer access and without, then costs fitted and collectives predicted, a rank a GPU; with
#            one GPU it says so (FOLDER/several-*). All other stages of the backend cuda are on one.
#   graph    all-reduce by a block a lane, in one launch, and by a graph of a kernel a level, beside
#            each other; more lanes than the GPU keeps at work (FOLDER/player-graph*.log)
#   bars     what the backend cuda reaches beside the driver's copy (FOLDER/bars.tsv)
#   nccl     the backend nccl with the real NCCL: NCCL's own collectives beside our schedules by its
#            sends and receives, on one rank, on as many ranks as there are GPUs, and on 2 and 4
#            processes that share them (right, but they take turns); beside them -B cuda on as many
#            virtual ranks (FOLDER/nccl-*.log)
#   check    the tests: what blocks hand on arrives, NCCL's sums are right
#   costs    what steps, launches and copies take on this GPU (FOLDER/costs.tsv)
#   sockets  NCCL between ranks that take themselves for hosts (FOLDER/sockets-*.log)
#   hosts    the same with several GPUs a host, for what NCCL chooses (FOLDER/hosts-*.picks)
#   steps    within a host, sixteen in one launch: steps without launches (FOLDER/steps-*.log)
#   within   NCCL within a host whose GPUs are all this one (FOLDER/within-*.log)
# Without a stage: all. Exit 1 if one failed. NCCL is found where Python's packages have it, or at
# NCCL_ROOT.
set -uo pipefail
[ $# -ge 1 ] || {
    sed -n "2,/^set/s/^# //p" "$0" >&2
    exit 2
}
mkdir -p "$1"
to=$(cd "$1" && pwd)
shift
stages=("$@")
[ $# -gt 0 ] || stages=(topo player train predict validate several graph bars nccl check costs sockets hosts steps within)
targets=(tutti)
case " ${stages[*]} " in *" player "* | *" several "* | *" bars "*) targets+=(cuda_conformance_test cuda_test bars) ;; esac
case " ${stages[*]} " in *" train "*) targets+=(train_gpu_test train_nccl_test) ;; esac
case " ${stages[*]} " in *" nccl "*) targets+=(nccl_conformance_test) ;; esac
case " ${stages[*]} " in *" check "* | *" costs "*) targets+=(gpu_costs_program) ;; esac
case " ${stages[*]} " in *" check "* | *" sockets "* | *" hosts "* | *" steps "* | *" within "*)
    targets+=(nccl_ranks) ;;
esac
# Kernels for the GPU that is here alone.
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. ')
cd "$(dirname "$0")/../.."

nccl=${NCCL_ROOT:-}
[ -n "$nccl" ] ||
    nccl=$(python3 -c 'import nvidia.nccl as n; print(list(n.__path__)[0])' 2>/dev/null) || nccl=""
build=build-gpu
generator=()
command -v ninja >/dev/null 2>&1 && generator=(-G Ninja)
cmake -S . -B $build "${generator[@]}" ${nccl:+-DTUTTI_NCCL_ROOT="$nccl"} \
    -DTUTTI_CUDA_ARCHITECTURES="$arch" \
    >"$to/configure.log" 2>&1 &&
    cmake --build $build -j "$(nproc)" --target "${targets[@]}" \
        >"$to/build.log" 2>&1 || {
    tail -n 30 "$to/configure.log" "$to/build.log"
    echo "== build FAILED" >&2
    exit 1
}
echo "== built in $SECONDS s"
library=$(sed -n 's/^TUTTI_NCCL_LIBRARY:FILEPATH=//p' $build/CMakeCache.txt)
nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max \
    --format=csv >"$to/machine.txt" 2>&1
{
    date -u +%Y-%m-%d
    uname -r
    nproc
    sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1
} >>"$to/machine.txt"
cat "$to/machine.txt"

gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | wc -l)
first=${CUDA_VISIBLE_DEVICES:-0}
one=(env CUDA_VISIBLE_DEVICES="${first%%,*}") # before a command: it sees one GPU

# ranks NAME ARGUMENTS...: one table of nccl_ranks, and beside it what NCCL chose for each size.
ranks() {
    local name=$1 start=$SECONDS rc
    shift
    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING,ENV NCCL_DEBUG_FILE="$to/$name.debug" \
        timeout 100 $build/tests/nccl_ranks --nccl "$library" --deadline 15 "$@" \
        >"$to/$name.log" 2>"$to/$name.err"
    rc=$?
    [ $rc -eq 0 ] || failed=1
    # What it says at each call comes once a size; the rest is the same for all tables of a machine.
    sed -n 's/.* INFO \(.* Bytes -> Algo .*\)/\1/p' "$to/$name.debug" | uniq >"$to/$name.picks"
    [ -n "${keep:-}" ] || rm -f "$to/$name.debug"
    [ -s "$to/$name.err" ] || rm -f "$to/$name.err"
    echo "== $name: rc $rc, $((SECONDS - start)) s, $(grep -c '^ *[0-9]' "$to/$name.log") rows"
}

# forced KIND COLLECTIVE ALGORITHM GPUS CHANNELS ARGUMENTS...: a table a protocol, on one host.
forced() {
    local kind=$1 collective=$2 algo=$3 gpus=$4 channels=$5 proto
    shift 5
    for proto in LL LL128 Simple; do
        NCCL_ALGO=$algo NCCL_PROTO=$proto NCCL_MAX_NCHANNELS=$channels \
            ranks "$kind-$collective-$algo-$proto-$gpus-ch$channels" -c "$collective" \
            -N 1 -g "$gpus" --topo $host -q "$@"
    done
}

# player NAME COMMAND...: one program of the backend cuda's; 77 is a failure here, where a GPU is.
player() {
    local name=$1 start=$SECONDS rc
    shift
    timeout 120 "${one[@]}" "$@" >"$to/player-$name.log" 2>&1
    rc=$?
    [ $rc -eq 0 ] || failed=1
    echo "== player $name: rc $rc, $((SECONDS - start)) s, $(tail -n 1 "$to/player-$name.log")"
}

# train NAME ARGUMENTS...: really trained on one GPU: a JSON line a step, kept; its last line says
# what the steps took.
train() {
    local name=$1 start=$SECONDS rc
    shift
    timeout 30 "${one[@]}" $build/tutti train -B cuda --format json --evaluate end "$@" \
        >"$to/train-$name.json" 2>"$to/train-$name.err"
    rc=$?
    [ $rc -eq 0 ] || failed=1
    [ -s "$to/train-$name.err" ] || rm -f "$to/train-$name.err"
    echo "== train $name: rc $rc, $((SECONDS - start)) s, $(tail -n 1 "$to/train-$name.json")"
}

# several NAME COMMAND...: one program of the backend cuda's, which sees all GPUs.
several() {
    local name=$1 start=$SECONDS rc
    shift
    timeout 120 "$@" >"$to/several-$name.log" 2>&1
    rc=$?
    [ $rc -eq 0 ] || failed=1
    echo "== several $name: rc $rc, $((SECONDS - start)) s, $(tail -n 1 "$to/several-$name.log")"
}

# lines FILE: nodes, links and hardware, without names and what devices are.
lines() {
    sed -e '/^topology /d' -e '/^source /d' -e 's/ flops=[^ ]*//' -e 's/ mem=[^ ]*//' "$1"
}

# calibrate BACKEND RANKS: its costs, into FOLDER/BACKEND.local.
calibrate() {
    local start=$SECONDS see=()
    [ "$1" != cuda ] || see=("${one[@]}")
    TUTTI_NCCL_LIBRARY=$library timeout 90 "${see[@]}" $build/tutti calibrate -B "$1" -g "$2" -e 50M \
        -O "$to/$1.local" >"$to/validate-calibrate-$1.log" 2>&1 || failed=1
    echo "== calibrate $1: $((SECONDS - start)) s, $(tail -n 1 "$to/validate-calibrate-$1.log")"
}

# validate NAME BACKEND ARGUMENTS...: one table of measured and predicted.
validate() {
    local name=$1 backend=$2 start=$SECONDS see=() rc
    shift 2
    [ "$backend" != cuda ] || see=("${one[@]}")
    TUTTI_NCCL_LIBRARY=$library timeout 100 "${see[@]}" $build/tutti validate -B "$backend" \
        --calib "$to/$backend.local" "$@" --format csv \
        >"$to/validate-$name.csv" 2>"$to/validate-$name.log"
    rc=$?
    [ $rc -eq 0 ] || failed=1
    # The column of errors is found by its name.
    echo "== validate $name: rc $rc, $((SECONDS - start)) s, median of absolute errors" \
        "$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "error_percent") c = i }
            NR > 1 { print $c < 0 ? -$c : $c + 0 }' "$to/validate-$name.csv" | sort -g |
            awk '{ e[NR] = $1 } END { print e[int((NR + 1) / 2)] " %, worst " e[NR] " %" }')"
}

# nccl NAME COMMAND...: one program of the backend nccl's.
nccl() {
    local name=$1 start=$SECONDS rc
    shift
    TUTTI_NCCL_LIBRARY=$library timeout 60 "$@" >"$to/nccl-$name.log" 2>&1
    rc=$?
    [ $rc -eq 0 ] || failed=1
    echo "== nccl $name: rc $rc, $((SECONDS - start)) s, $(tail -n 1 "$to/nccl-$name.log")"
}

host=tools/examples/h100x8.xml
failed=0
for stage in "${stages[@]}"; do
    case "$stage" in
    topo)
        $build/tutti topo show local -v --facts "$to/topo.facts" -O "$to/topo.topo" --links \
            >"$to/topo.log" 2>&1 &&
            $build/tutti predict "$to/topo.topo" -b 1M >>"$to/topo.log" 2>&1 &&
            $build/tutti predict local:ranks=8 -a ring,two-shot -b 1M -e 1G -f 32 \
                >>"$to/topo.log" 2>&1 &&
            $build/tutti topo convert "local:facts=$to/topo.facts" -O "$to/topo.again" &&
            diff <(grep -v '^topology' "$to/topo.topo") <(grep -v '^topology' "$to/topo.again") \
                >>"$to/topo.log" || failed=1
        # Beside what NCCL itself has found, which is said and no failure.
        NCCL_TOPO_DUMP_FILE="$to/topo.xml" TUTTI_NCCL_LIBRARY=$library timeout 60 $build/tutti run \
            -B nccl --library -a ring -b 1K -e 1K >"$to/topo-nccl.log" 2>&1 &&
            diff <(lines "$to/topo.topo") <($build/tutti topo convert "$to/topo.xml" | lines -) \
                >"$to/topo.diff"
        [ ! -f "$to/topo.diff" ] ||
            echo "== topo: $(grep -c '^[<>]' "$to/topo.diff") lines are not as NCCL has it"
        echo "== topo: $(sed -n 2p "$to/topo.log"), $(wc -l <"$to/topo.facts") facts"
        ;;
    validate)
        calibrate cuda 8
        for collective in allreduce allgather reducescatter broadcast reduce alltoall; do
            validate $collective cuda -g 8 -a all -c $collective -b 1K -e 16M -f 16 -w 2 -n 10
        done
        validate large cuda -g 8 -a ring,two-shot,halving-doubling -b 64M -e 64M -w 1 -n 5
        validate four cuda -g 4 -a ring,two-shot,one-shot -b 1K -e 16M -f 4 -w 2 -n 10
        if [ "$gpus" -gt 1 ]; then # one GPU a rank
            calibrate nccl "$gpus"
            validate nccl nccl -g "$gpus" -a all -b 1K -e 64M -f 8 -w 2 -n 10
        fi
        ;;
    player)
        player conformance $build/tests/cuda_conformance_test
        TUTTI_TEST_PERSISTENT=1 TUTTI_TEST_FEWER=4 \
            player persistent $build/tests/cuda_conformance_test
        TUTTI_TEST_GRAPH=1 TUTTI_TEST_FEWER=4 player graph $build/tests/cuda_conformance_test
        player test $build/tests/cuda_test
        for collective in allreduce allgather reducescatter broadcast reduce alltoall; do
            player "$collective" $build/tutti run -B cuda -g 8 -a all -c $collective -b 1K -e 16M \
                -f 16 -w 2 -n 5
        done
        sanitizer=$(command -v compute-sanitizer)
        for tool in memcheck racecheck synccheck; do
            [ -n "$sanitizer" ] || break
            TUTTI_TEST_FEWER=40 player $tool "$sanitizer" --tool $tool --error-exitcode 1 \
                $build/tests/cuda_conformance_test
        done
        [ -n "$sanitizer" ] || echo "== player: no compute-sanitizer here"
        ;;
    train) # weights beside those of threads (relative L2 1e-4), then what steps take
        player train $build/tests/train_gpu_test
        for model in linear-regression mlp cifar10-cnn; do
            for ranks in 2 4 8; do
                train $model-$ranks -g $ranks --model $model --global-batch 256 --steps 40
            done
        done
        for model in mlp cifar10-cnn; do # own tiles in the place of cuBLAS; one rank; threads
            TUTTI_CUBLAS_LIBRARY=none train $model-tiles -g 4 --model $model --global-batch 256 \
                --steps 40
            train $model-1 -g 1 --model $model --global-batch 256 --steps 40
            timeout 30 $build/tutti train -B threads -g 4 --model $model --global-batch 256 \
                --steps 8 --format json >"$to/train-$model-threads.json" 2>&1 || failed=1
            echo "== train $model-threads: $(tail -n 1 "$to/train-$model-threads.json")"
        done
        [ -n "$library" ] || {
            echo "== train: no NCCL here"
            continue
        }
        nccl train $build/tests/train_nccl_test
        for model in linear-regression mlp cifar10-cnn; do
            nccl train-$model $build/tutti train -B nccl -g "$gpus" --model $model \
                --global-batch 256 --steps 40 --format json --evaluate end
            nccl train-$model-shared $build/tutti train -B nccl --launch 2 --model $model \
                --global-batch 256 --steps 8 --format json --deadline 20s
        done
        [ "$gpus" -lt 4 ] || nccl train-hsdp $build/tutti train -B nccl -g 4 --model mlp \
            --strategy hsdp --shard 2 --global-batch 256 --steps 40 --format json
        ;;
    predict)
        timeout 200 "${one[@]}" tests/bench/train_predict.sh $build/tutti 2 cuda \
            >"$to/predict.log" 2>&1 || failed=1
        tail -n 12 "$to/predict.log"
        ;;
    several)
        if [ "$gpus" -lt 2 ]; then
            echo "== several: there is one GPU here; played on stand-ins alone"
            continue
        fi
        for peers in "" no-peers; do
            how=(env TUTTI_TEST_FEWER=4 ${peers:+TUTTI_TEST_STAGED=1})
            several "conformance${peers:+-$peers}" "${how[@]}" $build/tests/cuda_conformance_test
            several "persistent${peers:+-$peers}" "${how[@]}" TUTTI_TEST_PERSISTENT=1 \
                TUTTI_TEST_FEWER=20 $build/tests/cuda_conformance_test
            for ranks in $(printf '%s\n' "$gpus" 8 | sort -nu); do
                for collective in allreduce allgather alltoall; do
                    several "$collective-$ranks${peers:+-$peers}" $build/tutti run -B cuda \
                        -g "$ranks" -a all -c $collective -b 1K -e 16M -f 16 -w 2 -n 5 \
                        ${peers:+--$peers}
                done
            done
            costs=$to/several${peers:+-$peers}.local
            several "calibrate${peers:+-$peers}" $build/tutti calibrate -B cuda -g "$gpus" -e 50M \
                ${peers:+--$peers} -O "$costs"
            several "validate${peers:+-$peers}" $build/tutti validate -B cuda -g "$gpus" -a all \
                -b 1K -e 16M -f 16 -w 2 -n 10 ${peers:+--$peers} --calib "$costs"
        done
        several test $build/tests/cuda_test
        several trace $build/tutti run -B cuda -g "$gpus" -a ring -b 16M -e 16M \
            --trace "$to/several.csv"
        ;;
    graph) # the same rows as a block a lane, in one launch, and as a kernel a level
        for how in --graph=off --persistent --graph=on --graph=auto; do
            player "levels${how#-}" $build/tutti run -B cuda -g 8 -a ring,two-shot,one-shot \
                -b 64 -e 64M -f 16 -w 5 -n 20 $how
        done
        player levels-lanes $build/tutti run -B cuda -g 64 -a ring,two-shot --channels 16 -b 1M \
            -e 16M -f 16 -w 2 -n 5
        player levels-trace $build/tutti run -B cuda -g 8 -a two-shot -b 16M -e 16M --graph on \
            --trace "$to/graph.csv"
        ;;
    bars)
        timeout 200 "${one[@]}" $build/tests/bars >"$to/bars.tsv" 2>"$to/bars.err" || failed=1
        echo "== bars: $(wc -l <"$to/bars.tsv") lines, $(cat "$to/bars.err")"
        ;;
    nccl)
        play=("$build/tutti" run -w 5 -n 20 -b 1K -e 64M -f 16)
        nccl doctor $build/tutti doctor
        for ranks in $(printf '%s\n' 1 "$gpus" | uniq); do
            for collective in allreduce allgather reducescatter broadcast reduce alltoall; do
                nccl $collective-"$ranks" "${play[@]}" -B nccl -g "$ranks" -a all -c $collective \
                    --library
            done
        done
        [ "$gpus" -lt 2 ] || nccl conformance env TUTTI_TEST_FEWER=20 \
            TUTTI_TEST_PROCESSES=1 $build/tests/nccl_conformance_test
        for ranks in 2 4; do # each a process; times are those of taking turns
            nccl shared-$ranks $build/tutti run -B nccl --launch $ranks -a ring,two-shot \
                -b 1K -e 1M -f 32 -w 1 -n 2 --library --deadline 20s
        done
        nccl beside-cuda "${one[@]}" "${play[@]}" -B cuda -g 8 -a ring,two-shot,one-shot
        ;;
    check)
        ctest --test-dir $build -R '^(gpu_costs|nccl_ranks)' --output-on-failure \
            >"$to/check.log" 2>&1 || failed=1
        tail -n 20 "$to/check.log"
        ;;
    costs)
        $build/tests/gpu_costs >"$to/costs.tsv" || failed=1
        echo "== costs: $(wc -l <"$to/costs.tsv") lines"
        ;;
    sockets)
        for hosts in 2 4 8; do
            keep=yes ranks "sockets-allreduce-$hosts" -N $hosts -e 16M
        done
        for collective in allgather reducescatter broadcast reduce alltoall; do
            ranks "sockets-$collective-4" -N 4 -c $collective -e 4M
        done
        ;;
    hosts) # for what NCCL chooses there: each time is taken once
        for shape in "2 2" "2 4" "4 4" "2 8"; do
            for collective in allreduce allgather reducescatter broadcast reduce; do
                keep=$([ $collective = allreduce ] && echo yes)
                ranks "hosts-$collective-${shape/ /x}" -N ${shape% *} -g ${shape#* } --topo $host \
                    -c $collective -w 1 -n 1 -e 16M
            done
        done
        keep=""
        ;;
    steps)
        for gpus in 2 4 8; do
            for collective in allreduce allgather broadcast; do
                forced steps $collective Ring $gpus 1 -m 16 -b 64 -e 64K -f 4
            done
            forced steps allreduce Tree $gpus 1 -m 16 -b 64 -e 64K -f 4
        done
        ;;
    within)
        for gpus in 2 4 8; do
            keep=yes ranks "within-allreduce-$gpus" -N 1 -g $gpus --topo $host -e 64M
            forced within allreduce Ring $gpus 4 -n 40 -e 64M
            forced within allreduce Tree $gpus 4 -n 40 -e 64M
            for collective in allgather reducescatter broadcast reduce; do
                forced within $collective Ring $gpus 4 -n 40 -e 64M
            done
            ranks "within-alltoall-$gpus" -N 1 -g $gpus --topo $host -c alltoall -q -e 64M
        done
        for channels in 1 2 8 16; do
            forced within allreduce Ring 2 $channels -n 40 -e 64M
        done
        ;;
    *)
        echo "tests/gpu/run.sh: unknown stage '$stage' (topo, player, train, predict, validate, several, graph, bars," \
            "nccl, check, costs, sockets, hosts, steps, within)" >&2
        exit 2
        ;;
    esac
done
exit $failed
