// Writes occupancy_reference.csv by NVIDIA's own calculator, cuda_occupancy.h of CUDA 13:
//   g++ -I <site-packages>/nvidia/cu13/include occupancy_reference.cpp -o made && ./made > occupancy_reference.csv
// Device properties are those of the CUDA C++ Programming Guide, as cudaGetDeviceProperties gives them.
#include <cstdio>
#include <cuda_occupancy.h>

struct Sm { const char *target; int major, minor, threads, shared_kib, block_kib, reserved; };

int main() {
    const Sm sms[] = {
        {"sm_75", 7, 5, 1024, 64, 64, 0},      {"sm_80", 8, 0, 2048, 164, 163, 1024},
        {"sm_86", 8, 6, 1536, 100, 99, 1024},  {"sm_89", 8, 9, 1536, 100, 99, 1024},
        {"sm_90a", 9, 0, 2048, 228, 227, 1024}, {"sm_100a", 10, 0, 2048, 228, 227, 1024},
        {"sm_120a", 12, 0, 1536, 100, 99, 1024},
    };
    const int registers[] = {16, 24, 32, 33, 40, 48, 56, 64, 72, 80, 96, 104, 128, 160, 168, 200, 224, 255};
    const int blocks[] = {32, 64, 96, 128, 160, 192, 256, 288, 320, 384, 448, 512, 640, 768, 896, 1024};
    const int shared[] = {0, 33000};
    std::printf("target,registers,threads,shared_bytes,blocks\n");
    for (const Sm &sm : sms)
        for (int r : registers)
            for (int b : blocks)
                for (int s : shared) {
                    cudaOccDeviceProp device;
                    device.computeMajor = sm.major, device.computeMinor = sm.minor;
                    device.maxThreadsPerBlock = 1024, device.maxThreadsPerMultiprocessor = sm.threads;
                    device.regsPerBlock = device.regsPerMultiprocessor = 65536, device.warpSize = 32;
                    device.sharedMemPerBlock = 49152, device.sharedMemPerMultiprocessor = sm.shared_kib * 1024;
                    device.sharedMemPerBlockOptin = sm.block_kib * 1024, device.numSms = 132;
                    device.reservedSharedMemPerBlock = sm.reserved;
                    cudaOccFuncAttributes function;
                    function.maxThreadsPerBlock = 1024, function.numRegs = r, function.sharedSizeBytes = s;
                    cudaOccDeviceState state;
                    cudaOccResult result;
                    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, b, 0)) return 1;
                    std::printf("%s,%d,%d,%d,%d\n", sm.target, r, b, s, result.activeBlocksPerMultiprocessor);
                }
}
