#!/usr/bin/env python3
"""Turns what tests/gpu/run.sh left in folders into the tables of traces/measured/h100 or h200:
tests/gpu/tables.py OUT FOLDER... (a file of a later folder replaces that of an earlier one; all
are of one kind of GPU)."""
import os
import re
import sys

RANGE = re.compile(r'\w+: (\d+) Bytes -> Algo (\w+) proto (\w+) '
                   r'channel\{Lo..Hi\}=\{(\d+)\.\.(\d+)\}')
FORCED = re.compile(r'(within|steps)-(\w+)-(Ring|Tree)-(\w+)-(\d+)-ch(\d+)$')
HOSTS = re.compile(r'hosts-(\w+)-(\d+)x(\d+)$')
FREE = re.compile(r'(within|sockets)-(\w+)-(\d+)$')
SOCKETS = 'pcie:gpu={gpu},gpus=1,sockets=1,switches=1,nics=1,nodes={n},nicbw=10Gb/s,net=tcp,gdr=no'
SEVERAL = ('host:gpu=h100,gpus={g},board=8,nics=1,nic=10Gb/s,nicat=cpu,cpu=intel,sockets=1,'
           'switches=8,net=tcp,gdr=no,nodes={n}')  # tools/examples/h100x8.xml, with lo for a NIC
OPS = {'allreduce': 'sum', 'reducescatter': 'sum', 'reduce': 'sum'}
PER_RANK = ('allgather', 'reducescatter')  # of which NCCL names the bytes of one rank


def word_of(folder):
    """"h100" of a folder whose machine.txt says "NVIDIA H100 80GB HBM3, ..."."""
    text = open(os.path.join(folder, 'machine.txt')).read()
    return re.search(r'NVIDIA (\w+)', text)[1].lower()


def plan_of(name, gpu):
    """(kind, collective, ranks, environment, machine) of a log's name."""
    m = FORCED.match(name)
    if m:
        kind, collective, algo, proto, ranks, channels = m.groups()
        env = f'NCCL_ALGO={algo},NCCL_PROTO={proto},NCCL_MAX_NCHANNELS={channels}'
    elif HOSTS.match(name):
        collective, hosts, gpus = HOSTS.match(name).groups()
        ranks = int(hosts) * int(gpus)
        env = f'NCCL_NVLS_ENABLE=0,NCCL_MAX_NCHANNELS={min(16, 128 // ranks)}'
        return 'hosts', collective, ranks, env, SEVERAL.format(g=gpus, n=hosts)
    else:
        kind, collective, ranks = FREE.match(name).groups()
        env = 'NCCL_MAX_NCHANNELS=16'
    machine = SOCKETS.format(gpu=gpu, n=ranks) if kind == 'sockets' else f'dgx-h100:gpus={ranks},nodes=1'
    return kind, collective, int(ranks), 'NCCL_NVLS_ENABLE=0,' + env, machine


def rows_of(path):
    rows = []
    for line in open(path):
        part = line.split()
        if len(part) == 13 and part[0].isdigit():
            assert part[8] == '0', (path, line)
            rows.append((int(part[0]), part[5], part[9] if part[9] != 'N/A' else '-'))
    return rows


def table(name, path, about, gpu):
    kind, collective, ranks, env, machine = plan_of(name, gpu)
    sockets = kind == 'sockets'
    head = [('table', f'{gpu}_' + re.sub(r'\W', '_', name).lower()), ('site', f'one-{gpu}'),
            ('platform', f'one-{gpu}'), ('class', 'hopper'), ('machine', machine),
            ('ranks', ranks), ('nodes', ranks if sockets else 1), ('gpus', 1 if sockets else ranks)]
    if sockets:
        head += [('nics', 1), ('nic', '10Gb/s'), ('net', 'tcp'), ('basis', 'stated')]
    head += [('library', 'nccl'), ('version', about['version']), ('env', env.replace(',', ' ')),
             ('collective', collective), ('dtype', 'float'), ('op', OPS.get(collective, 'none')),
             ('launch', 'one' if about['host'] else 'each'), ('timing', 'host'),
             ('iterations', about['iterations']), ('quality', 'good'),
             ('caveat', 'all ranks share one GPU: ' +
              ('hosts are pretended, the network is loopback' if sockets
               else 'no link is in between')),
             *([] if about['host'] else
               [('note', 'mean of a loop all of which was launched before it was timed')]),
             ('source', f"tests/gpu/run.sh, {about['machine']}")]
    lines = [f'{key} {value}' for key, value in head] + ['rows']
    lines += [' '.join(str(v) for v in row) for row in rows_of(path)]
    return '\n'.join(lines + ['end', ''])


def picks(name, path, gpu):
    """One line for each run of sizes with one choice: machine, environment, collective, first size,
    last size, algorithm, protocol, channels."""
    _, collective, ranks, env, machine = plan_of(name, gpu)
    runs = []
    for line in open(path):
        m = RANGE.match(line)
        if not m:
            continue
        size = int(m[1]) * (ranks if collective in PER_RANK else 1)
        chosen = (m[2].lower(), m[3].lower(), str(int(m[5]) - int(m[4]) + 1))
        if runs and runs[-1][2] == chosen and size == 2 * runs[-1][1]:
            runs[-1][1] = size
        elif not runs or size > runs[-1][1]:
            runs.append([size, size, chosen])
    return [' '.join([machine, env, collective, str(first), str(last), *chosen])
            for first, last, chosen in runs]


def about_of(path, machine):
    text = open(path).read()
    return {'version': re.search(r'# NCCL version ([0-9.]+)', text)[1],
            'iterations': int(re.search(r' iters: (\d+) agg', text)[1]),
            'host': 'launched before' not in text, 'machine': machine}


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    out, files, gpu = sys.argv[1], {}, word_of(sys.argv[2])
    for folder in sys.argv[2:]:
        about = open(os.path.join(folder, 'machine.txt')).read().split('\n')
        name, driver = about[1].split(', ')[:2]
        machine = f'{name}, driver {driver}, {about[2]}'
        for file in os.listdir(folder):
            files[file] = (os.path.join(folder, file), machine)
    chosen, steps = [], []
    for kind in ('within', 'sockets'):
        text = 'tutti measured 1\n# Written by tests/gpu/tables.py of what tests/gpu/run.sh took.\n'
        for file in sorted(files):
            if not file.startswith(kind) or not file.endswith('.log'):
                continue
            path, machine = files[file]
            text += '\n' + table(file[:-4], path, about_of(path, machine), gpu)
            if file[:-4] + '.picks' in files:
                chosen += picks(file[:-4], files[file[:-4] + '.picks'][0], gpu)
        open(os.path.join(out, kind + '.measured'), 'w').write(text)
    for file in sorted(files):
        if file.startswith('hosts') and file.endswith('.picks'):
            chosen += picks(file[:-6], files[file][0], gpu)
    with open(os.path.join(out, 'picks.txt'), 'w') as to:
        to.write('# What NCCL chose, by its own word (NCCL_DEBUG_SUBSYS=TUNING): machine, variables, '
                 'collective,\n# first size and last, algorithm, protocol, channels. Written by '
                 'tests/gpu/tables.py.\n')
        to.write('\n'.join(chosen) + '\n')
    for file in sorted(files):
        m = FORCED.match(file[:-4])
        if m and m[1] == 'steps' and file.endswith('.log'):
            for size, time, _ in rows_of(files[file][0]):
                steps.append('\t'.join([m[2], m[3], m[4], m[5], str(size), time]))
    with open(os.path.join(out, 'steps.tsv'), 'w') as to:
        to.write('# us a collective, sixteen of them in one launch on one channel, ranks that share '
                 f'one {gpu.upper()}.\n# Written by tests/gpu/tables.py from what tests/gpu/run.sh measured.\n'
                 '# collective\talgorithm\tprotocol\tranks\tbytes\tus\n')
        to.write('\n'.join(steps) + '\n')
    with open(os.path.join(out, 'costs.tsv'), 'w') as to:
        to.write(open(files['costs.tsv'][0]).read())


main()
