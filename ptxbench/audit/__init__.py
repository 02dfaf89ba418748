"""What others recorded, judged by what is known of the sensor that they read."""
