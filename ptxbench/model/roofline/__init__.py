"""The energy roofline of Choi and Vuduc (2012): what flops, bytes and time cost, and where they balance."""
