# What `run` costs decoding where CUPTI is left between two turns, and whether graphs outlive that: 170 s on a GPU.
#
#   bash studies/programs/leave_cupti.sh FOLDER
OUT=$1 R=$PWD/runners L=$1/turns.log
export PYTHONPATH=$PWD:$R
SECONDS=0
export CUPTI=$(python3 -c "import torch,glob,os;d=os.path.dirname(os.path.dirname(torch.__file__));print((glob.glob(d+'/nvidia/*/lib/libcupti.so.1*')+[''])[0])")
echo "CUPTI=$CUPTI" > $L
nvcc -O2 -arch=native -o /tmp/gt studies/programs/graph_tracing.cu &
python3 -c "import run_programs as r,replay_programs as p;open('/tmp/d.py','w').write(r.DECODE);open('/tmp/g.py','w').write(p.GENERATE)"
python3 -c "import sys;sys.path.insert(0,'tests/attribute');import test_replay_program_gpu as t;open('/tmp/s.py','w').write(t.SEVERAL)"
wait
timeout 30 /tmp/gt kIrKzrkrKzrkrKzr kIrKrkrKZrkrKZr kIrjIrKZrjrkrKZjrjr kIrKZIrkrKZr irkrKZr > $OUT/gt-states.log 2>&1
go() { # NAME, how CUPTI is treated, options and the program
    name=$1 leaves=$2
    shift 2
    echo "== $name at $SECONDS s" >> $L
    env $leaves timeout 45 python3 -m ptxbench run --out $OUT/$name "$@" >> $L 2>&1
    echo "exit $?" >> $L
    rm -f $OUT/$name/launches.parquet
}
LEAVE="PTXBENCH_LEAVES_CUPTI=1 PTXBENCH_SAYS_TURNS=1"
go leaves-several "$LEAVE" -- python3 /tmp/s.py 16000
echo "== several alone" >> $L; timeout 40 python3 /tmp/s.py 16000 >> $L 2>&1; echo "exit $?" >> $L
go leaves-graph "$LEAVE" -- python3 /tmp/d.py graph 500 $R
go plain-graph "" --no-kernels -- python3 /tmp/d.py graph 500 $R
go leaves-ahead "$LEAVE" -- python3 /tmp/d.py ahead 500 $R
go plain-ahead "" --no-kernels -- python3 /tmp/d.py ahead 500 $R
[ $SECONDS -lt 128 ] && go leaves-generate "$LEAVE" -- python3 /tmp/g.py compiled 12
echo "$SECONDS s" >> $L
python3 runners/replay_programs.py --out $OUT/replay --only long --limit-s 45 > $OUT/replay.log 2>&1
echo "$SECONDS s" >> $L
