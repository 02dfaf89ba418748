# What `run` costs decoding where CUPTI is left between two turns, and what each step of that costs: 98 s on a GPU.
#
#   bash studies/programs/leave_cupti.sh FOLDER
OUT=$1 R=$PWD/runners L=$1/turns.log
export PYTHONPATH=$PWD:$R
SECONDS=0
export CUPTI=$(python3 -c "import torch,glob,os;d=os.path.dirname(os.path.dirname(torch.__file__));print((glob.glob(d+'/nvidia/*/lib/libcupti.so.1*')+[''])[0])")
echo "CUPTI=$CUPTI" > $L
nvcc -O2 -arch=native -o /tmp/gt studies/programs/graph_tracing.cu &
nvcc -O2 -arch=native -shared -Xcompiler -fPIC -o /tmp/gt.so studies/programs/graph_tracing.cu &
python3 -c "import run_programs as r;open('/tmp/d.py','w').write(r.DECODE)"
wait
go() {
    echo "== $* at $SECONDS s" >> $L
    PTXBENCH_LEAVES_CUPTI=$1 timeout 40 python3 -m ptxbench run --out $OUT/t$1-$2 $3 -- python3 /tmp/d.py $2 300 $R >> $L 2>&1
    echo "exit $?" >> $L
    rm -f $OUT/t$1-$2/launches.parquet
}
go 5 graph
go 0 graph --no-kernels
timeout 40 python3 studies/programs/graph_tracing.py /tmp/gt.so kcIrKraZrakrKZrirkrKr irakrKrazrakrKZrkrKzr > $OUT/decode-states.log 2>&1
timeout 15 /tmp/gt kIrKrzrkrKZrkr > $OUT/gt-states.log 2>&1
for a in "7 graph" "5 ahead" "4 graph" "13 graph"; do [ $SECONDS -lt 84 ] && go $a; done
echo "$SECONDS s" >> $L
