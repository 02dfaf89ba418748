// The same accelerations in f64, one body a thread.
extern "C" __global__ void nbody_reference(const float4* body, float4* acceleration)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    const double x = body[i].x, y = body[i].y, z = body[i].z;
    double ax = 0.0, ay = 0.0, az = 0.0;
    for (int j = 0; j < N; ++j) {
        const double dx = body[j].x - x, dy = body[j].y - y, dz = body[j].z - z;
        const double inverse = rsqrt(dx * dx + dy * dy + dz * dz + 1e-2);
        const double weight = body[j].w * inverse * inverse * inverse;
        ax += dx * weight;
        ay += dy * weight;
        az += dz * weight;
    }
    acceleration[i] = make_float4((float)ax, (float)ay, (float)az, 0.0f);
}
